"""Write the table of settings into docs/operations.md: `python scripts/settings_table.py`.

Names, defaults and meanings come from service/settings.py; which process reads a setting comes from who
imports the code that does.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp
import msgspec

from service.settings import Settings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operations.md"
BEGIN, END = "<!-- settings: written by `make docs` -->", "<!-- end of settings -->"

#: Where each process begins. All of them read the settings of the log, and `migrate` the first of all.
_PROCESSES = {
    "api": "service.api.server",
    "worker": "workers.worker",
    "dispatcher": "workers.dispatch",
    "ticker": "workers.ticker",
    "health": "service.cli.commands.health",
}
_ALSO = {"database_url": ["migrate"], "log_format": ["all"], "log_level": ["all"]}


def table() -> str:
    """The table as Markdown."""
    meanings, readers = _meanings(), _readers()
    rows = [
        f"| `MUSTER_{field.name.upper()}` | {_shown(field.default)} | {', '.join(readers[field.name])} |"
        f" {meanings[field.name]} |"
        for field in msgspec.structs.fields(Settings)
    ]
    return "\n".join(["| variable | default | read by | meaning |", "|---|---|---|---|", *rows])


def with_table(page: str) -> str:
    """The page with the table between its marks."""
    before, rest = page.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _meanings() -> Mapping[str, str]:
    """By field: the comment of `#:` lines above it."""
    found: dict[str, str] = {}
    lines: list[str] = []
    for line in (ROOT / "service" / "settings.py").read_text().splitlines():
        text = line.strip()
        if text.startswith("#:"):
            lines.append(text.removeprefix("#:").strip())
        elif field := re.match(r"    (\w+): .* = ", line):
            found[field[1]] = " ".join(lines)
            lines = []
        else:
            lines = []
    return found


def _readers() -> Mapping[str, list[str]]:
    graph = grimp.build_graph("service", "workers", "migrations")
    reached = {name: {entry, *graph.find_upstream_modules(entry)} for name, entry in _PROCESSES.items()}
    readers: dict[str, list[str]] = {field.name: [] for field in msgspec.structs.fields(Settings)}
    for module in sorted(graph.modules):
        for setting in set(_settings_read(module)) & readers.keys():
            readers[setting] += [name for name, modules in reached.items() if module in modules]
    return {
        name: [*dict.fromkeys(sorted(found, key=list(_PROCESSES).index)), *_ALSO.get(name, [])]
        for name, found in readers.items()
    }


def _settings_read(module: str) -> Iterator[str]:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text())):
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value).rpartition(".")[2].strip("_") == "settings"
        ):
            yield node.attr


def _shown(default: object) -> str:
    return f"`{default}`" if default not in (None, "") else "none"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    sys.exit(0)
