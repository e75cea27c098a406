"""Which scenario files run: those beside the tests, or those of --scenarios DIR."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.scenario import ScenarioError, files_in, read

OWN_FILES = Path(__file__).parent / "files"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario_path" in metafunc.fixturenames:
        folder = Path(metafunc.config.getoption("--scenarios") or OWN_FILES)
        paths = [path for path in files_in(folder) if _is_item(path)]
        if not paths and not files_in(folder):
            raise pytest.UsageError(f"no scenario files in {folder}")
        metafunc.parametrize("scenario_path", paths, ids=[path.stem for path in paths])


def _is_item(path: Path) -> bool:
    """Cases make no item here. A file that cannot be read does: it fails there, with its error."""
    try:
        return read(path).is_timeline
    except ScenarioError:
        return True
