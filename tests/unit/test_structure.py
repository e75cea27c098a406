"""The shape of the code: sizes, names, imports and patches stay within what the architecture says."""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("service", "workers", "simulation")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Packages' docstrings and the like would make the median of files a matter of counting folders.
MODULES = [path for path in SOURCES if path.name != "__init__.py"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(parse(path)):
        if isinstance(node, Function):
            yield node


def length(function: Function) -> int:
    """The lines of a function without its docstring and decorators."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def share_within(sizes: list[int], limit: int) -> float:
    return sum(size <= limit for size in sizes) / len(sizes)


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_are_small() -> None:
    sizes = {place(path): len(path.read_text().splitlines()) for path in MODULES}
    over = {name: size for name, size in sizes.items() if size > 400}
    assert statistics.median(sizes.values()) <= 120
    assert share_within(list(sizes.values()), 400) >= 0.95, over


def test_functions_are_short() -> None:
    sizes = {
        f"{place(path)}:{function.lineno} {function.name}": length(function)
        for path in SOURCES
        for function in functions(path)
    }
    assert statistics.median(sizes.values()) <= 10
    assert share_within(list(sizes.values()), 40) >= 0.95, {k: v for k, v in sizes.items() if v > 40}
    assert {k: v for k, v in sizes.items() if v > 70} == {}


#: Litestar, click and RQ call by name whatever the order; the admission's inner loops pass arrays.
NAMED = ("service/domain", "service/inventory", "service/store", "service/operations", "workers")
#: Signatures that are somebody else's: Python's, and psycopg's connection.
GIVEN = {"__exit__", "__aexit__", "wait"}


def test_arguments_past_the_second_are_named() -> None:
    found = [
        f"{place(path)}:{function.lineno} {function.name}"
        for path in SOURCES
        if place(path).startswith(NAMED)
        for function in named_functions(parse(path))
        if function.name not in GIVEN and positional_count(function) > 2
    ]
    assert found == []


def named_functions(tree: ast.Module) -> Iterator[Function]:
    """Functions of modules and classes. One within another is called by whoever it is given to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from (child for child in node.body if isinstance(child, Function))


def positional_count(function: Function) -> int:
    """Without `self` and `cls`."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


@pytest.mark.parametrize("word", ["utils", "util", "helpers", "helper", "manager", "core", "common", "misc"])
def test_no_module_is_named_after_nothing(word: str) -> None:
    assert [place(path) for path in SOURCES if word in path.relative_to(ROOT).with_suffix("").parts] == []


def test_patching_stays_rare() -> None:
    patches, tests = 0, 0
    for path in TESTS:
        for node in ast.walk(parse(path)):
            tests += isinstance(node, Function) and node.name.startswith("test_")
            patches += isinstance(node, ast.Call) and is_patch(ast.unparse(node.func))
    assert tests > 0
    assert 100 * patches / tests <= 5


def is_patch(called: str) -> bool:
    return bool(re.search(r"(^|\.)patch(\.\w+)?$|monkeypatch\.setattr$", called))


def test_the_domain_needs_nothing_that_has_to_be_installed() -> None:
    allowed = {*sys.stdlib_module_names, "numpy"}
    for path in sorted((ROOT / "service" / "domain").rglob("*.py")):
        for module in imported_modules(path):
            assert module.split(".")[0] in allowed or module.startswith("service.domain"), (
                place(path),
                module,
            )


def test_the_command_line_starts_processes_and_otherwise_talks_through_the_client() -> None:
    allowed = re.compile(
        r"service(\.(cli|client|domain|settings|clock|logs)(\..*)?|\.api\.\w+|\.store\.migrate)?|(workers|simulation)(\..*)?"
    )
    for path in sorted((ROOT / "service" / "cli").rglob("*.py")):
        ours = [module for module in imported_modules(path) if module.split(".")[0] in PACKAGES]
        assert [module for module in ours if not allowed.fullmatch(module)] == [], place(path)


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_every_package_is_under_the_layer_contracts() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    present = {package for package in PACKAGES if (ROOT / package / "__init__.py").exists()}
    assert present <= set(settings["root_packages"])
    layers = next(each["layers"] for each in settings["contracts"] if each["id"] == "layers")
    named = set(re.findall(r"[a-z_.]+", " ".join(layers)))
    for package in present - {"service"}:
        assert package in named
    for part in sorted((ROOT / "service").glob("*/__init__.py")):
        # The client stands beside the layers and has a contract of its own.
        assert part.parent.name == "client" or f"service.{part.parent.name}" in named


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    machine = re.compile(r"(?<![\w.])/(?:root|work)/")
    suffixes = {
        ".py",
        ".toml",
        ".txt",
        ".md",
        ".sh",
        ".yml",
        ".yaml",
        ".json",
        ".lua",
        ".html",
        ".css",
        ".js",
        "",
    }
    found = []
    for path in ROOT.rglob("*"):
        hidden = any(part.startswith(".") and part != ".ci" for part in path.relative_to(ROOT).parts)
        if hidden or path.suffix not in suffixes or not path.is_file():
            continue
        if machine.search(path.read_text(errors="replace")):
            found.append(place(path))
    assert found == []


def test_every_folder_of_tests_is_run() -> None:
    """`make test` runs the testpaths, targets of their own the rest."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    folders = {
        f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in TESTS if path.name[:5] == "test_"
    }
    own = {f"tests/{name}" for name in ("browser", "faults", "simulation", "suite", "traces")}
    assert folders == {*options["testpaths"], *own}
