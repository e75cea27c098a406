from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.masking import MASK, StreamMask, is_sensitive, mask_text, split_env


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
    assert mask_text("a=abcd b=abcdef c=", ["abcd", "abcdef", ""]) == f"a={MASK} b={MASK} c="


def test_short_values_are_left_alone() -> None:
    assert mask_text("exit code 1 of abc", ["1", "abc"]) == "exit code 1 of abc"


def _masked(pieces: list[bytes], values: list[str]) -> bytes:
    mask = StreamMask(values)
    return b"".join(map(mask.feed, pieces)) + mask.rest()


def test_a_value_is_found_across_pieces() -> None:
    assert _masked([b"a VAL", b"UE-", b"ONE b"], ["VALUE-ONE"]) == b"a *** b"
    assert _masked([b"VALUE-ON"], ["VALUE-ONE"]) == b"VALUE-ON"
    assert _masked([b"xabcd", b"ef"], ["abcd", "abcdef"]) == b"x***"
    assert _masked([b"xabcd", b"e"], ["abcd", "abcdef"]) == b"x***e"
    assert _masked([b"xabcd", b"efg"], ["abcd", "defg"]) == b"x***efg"
    assert _masked([b"a1b"], ["1", ""]) == b"a1b"


def test_what_cannot_be_a_value_is_not_kept_back() -> None:
    mask = StreamMask(["VALUE-ONE"])
    assert mask.feed(b"step 1\n") == b"step 1\n"
    assert mask.feed(b"VALUE") == b""
    assert mask.feed(b"S\n") == b"VALUES\n"


_LETTERS = st.text("ab", max_size=30)


@given(_LETTERS, st.lists(st.text("ab", min_size=4, max_size=7), max_size=3), st.lists(st.integers(1, 5)))
def test_pieces_make_no_difference(text: str, values: list[str], sizes: list[int]) -> None:
    pieces, rest = [], text.encode()
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert _masked([*pieces, rest], values) == _masked([text.encode()], values)


@given(st.text("ab", max_size=40), st.lists(st.text("ab", min_size=4, max_size=20), min_size=1, max_size=3))
def test_just_what_may_become_a_value_is_kept_back(text: str, values: list[str]) -> None:
    shown = StreamMask(values).feed(text.encode()).decode()
    if MASK in shown:
        return
    ends = [text[start:] for start in range(len(text))]
    longest = next((end for end in ends if any(value.startswith(end) for value in values)), "")
    assert (shown, longest) == (text.removesuffix(longest) if longest else text, longest)


@pytest.mark.parametrize(
    "secret", ["x" * 65_000 + "y", "".join(f"{number:05}" for number in range(13_000)), "xy" * 32_500 + "z"]
)
def test_a_long_value_does_not_slow_the_log(secret: str) -> None:
    """A file of certificates, and the worst that a value can be: one that nearly repeats itself."""
    mask = StreamMask([secret])
    pieces = [b"step 1 loss 0.25\n" * 16_000] * 20 + [secret[:60_000].encode(), b" no\n"]
    started = time.process_time()
    shown = b"".join(map(mask.feed, pieces)) + mask.rest()
    assert shown == b"".join(pieces)
    assert time.process_time() - started < 1.0
