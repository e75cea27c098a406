"""What tells policies apart: a colour, and without colours a line style, a mark and a hatch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Palette:
    """Of the page that a picture stands on."""

    ink: str
    faint: str
    ground: str
    colours: tuple[str, ...]


LIGHT = Palette(
    ink="#24292f",
    faint="#d5d9de",
    ground="#ffffff",
    colours=("#1f5fa8", "#c2560a", "#2c7a4b", "#8a3a9e", "#a8262b", "#0f7c86", "#6b5310", "#55606b"),
)
DARK = Palette(
    ink="#e3e7eb",
    faint="#3c444d",
    ground="#161b21",
    colours=("#7cb4f2", "#f3a15b", "#7fcf9b", "#d69be6", "#f28b88", "#6fd0d8", "#d8bd6a", "#aeb8c2"),
)


@dataclass(frozen=True, kw_only=True)
class Look:
    """Of one policy in every picture."""

    colour: str
    dashes: tuple[float, ...]
    mark: str
    hatch: str


_DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5, 2),
    (1.2, 1.4),
    (6, 2, 1.2, 2),
    (9, 2.5),
    (3, 1.2, 1, 1.2, 1, 1.2),
    (2.5, 3),
    (10, 2, 2, 2),
)
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Of lines alone: a pattern of dots weighs as much as ten pictures.
_HATCHES = ("", "////", "\\\\\\", "xxxx", "----", "||||", "++++", "//")


def looks(count: int, palette: Palette) -> list[Look]:
    """Beyond eight they come again."""
    return [
        Look(
            colour=palette.colours[number % 8],
            dashes=_DASHES[number % 8],
            mark=_MARKS[number % 8],
            hatch=_HATCHES[number % 8],
        )
        for number in range(count)
    ]


def mark_every(number: int) -> tuple[int, int]:
    """The first mark of a line and their distance: apart from those of others that lie on it."""
    return (3 * number % 25, 25)
