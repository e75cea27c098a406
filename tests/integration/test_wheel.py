"""The wheel holds the packages whole: code, Lua, templates and migrations."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("service", "workers", "simulation", "migrations")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        folder,
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("muster-*.whl")
    return built


def test_it_holds_every_file_of_the_packages(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == wanted


def test_it_gives_the_command_its_licence_and_its_types(wheel: Path) -> None:
    held = zipfile.ZipFile(wheel)
    names = held.namelist()
    (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
    assert "muster = service.cli.main:main" in held.read(entry_points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"service/py.typed", "workers/py.typed"} <= set(names)


def test_the_migrations_are_read_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from importlib.resources import files; print(files('migrations').joinpath('env.py').resolve())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == tmp_path / "migrations" / "env.py"
    assert Path(done.stdout.strip()).is_file()
