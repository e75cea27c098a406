"""The pins name no registry, and every pin has its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REQUIREMENTS = sorted((Path(__file__).parent.parent.parent / "requirements").glob("*.txt"))


def test_there_are_pins() -> None:
    assert [path.name for path in REQUIREMENTS] == ["base.txt", "dev.txt"]


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_no_line_names_a_registry(path: Path) -> None:
    named = [line for line in path.read_text().splitlines() if "://" in line or line.startswith("-")]
    assert named == []


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_pin_is_exact_and_has_a_hash(path: Path) -> None:
    text = path.read_text().replace("\\\n", " ")
    pins = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(pins) > 5
    for pin in pins:
        assert re.match(r"[a-z0-9][a-z0-9._-]*==\S+ ", pin), pin
        assert "--hash=sha256:" in pin, pin
