"""Every reason has a family and a sentence."""

from __future__ import annotations

from collections import Counter

import pytest

from service.domain.reasons import FAMILIES, Code, family
from service.domain.wording import amount, message, unended_groups


def test_each_code_is_in_one_family() -> None:
    counts = Counter(code for codes in FAMILIES.values() for code in codes)
    assert counts == dict.fromkeys(Code, 1)
    assert all(code in FAMILIES[family(code)] for code in Code)


@pytest.mark.parametrize("code", list(Code))
def test_each_code_is_a_sentence_even_without_numbers(code: Code) -> None:
    sentence = message(code)
    assert sentence
    assert not sentence.endswith(".")
    assert "None" not in sentence


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("gpus", 1, "1 GPU"),
        ("gpus", 5, "5 GPUs"),
        ("cpus", 1000, "1 CPU"),
        ("cpus", 1500, "1.5 CPUs"),
        ("memory", 65536, "64 GiB of memory"),
    ],
)
def test_amounts(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 group that has not ended"), (2, "2 groups that have not ended")]
)
def test_one_group_is_no_groups(count: int, text: str) -> None:
    assert unended_groups(count) == text
