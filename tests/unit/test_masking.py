from __future__ import annotations

import pytest

from service.domain.masking import MASK, is_sensitive, mask_text, split_env


@pytest.mark.parametrize(
    "name",
    [
        "API_TOKEN",
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "PGPASSWORD",
        "passwd",
        "credentials",
        "SSH_PRIVATE_KEY",
        "SIGNING_KEY",
        "Authorization",
        "SESSION_COOKIE",
        "api-key",
    ],
)
def test_names_that_look_sensitive(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize("name", ["MODE", "LR", "KEYBOARD", "MONKEY", "NCCL_DEBUG", "BATCH_SIZE", "PATH"])
def test_names_that_do_not(name: str) -> None:
    assert not is_sensitive(name)


def test_variables_are_split_without_loss() -> None:
    shown, hidden = split_env({"MODE": "train", "API_TOKEN": "x"})
    assert (shown, hidden) == ({"MODE": "train"}, {"API_TOKEN": "x"})


def test_no_part_of_a_longer_value_is_left() -> None:
    assert mask_text("a=abc b=abcdef c=", ["abc", "abcdef", ""]) == f"a={MASK} b={MASK} c="
