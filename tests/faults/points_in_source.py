"""The named points of the product, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import service

ROOT = Path(service.__file__).parent.parent
_PACKAGES = ("service", "workers", "simulation")
_MECHANISM = ROOT / "service" / "points.py"


@dataclass(frozen=True, slots=True)
class Reached:
    """One call of `reach`. `name` is None where it is no literal."""

    place: str
    name: str | None


def find_points() -> list[Reached]:
    """Every call of `reach` in the packages."""
    return [
        reached
        for package in _PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != _MECHANISM
        for reached in _points_of(path)
    ]


def point_names() -> list[str]:
    """The literal names, each once, so that two that follow each other are mostly of different processes."""
    names = sorted({point.name for point in find_points() if point.name is not None})
    of_part: dict[str, list[str]] = {}
    for name in names:
        of_part.setdefault(name.partition(".")[0], []).append(name)
    shares = [(index / len(part), name) for part in of_part.values() for index, name in enumerate(part)]
    return [name for _, name in sorted(shares)]


def _points_of(path: Path) -> Iterator[Reached]:
    text = path.read_text()
    if "service.points" not in text and "import points" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _is_reach(node.func):
            first = node.args[0] if len(node.args) == 1 and not node.keywords else None
            is_literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
            name = first.value if is_literal and isinstance(first, ast.Constant) else None
            yield Reached(f"{path.relative_to(ROOT)}:{node.lineno}", name if isinstance(name, str) else None)


def _is_reach(called: ast.expr) -> bool:
    match called:
        case ast.Name(id="reach"):
            return True
        case ast.Attribute(value=ast.Name(id="points"), attr="reach"):
            return True
    return False
