"""The wheel holds the packages whole: code, Lua, templates and migrations. Installed where nothing else is,
it runs the whole stack."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import service
from tests import servers
from tests.e2e.stacks import Up, assert_clean, data_folder
from tests.integration.empty_environment import EmptyEnvironment

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
    assert {"service/py.typed", "workers/py.typed", "simulation/py.typed"} <= set(names)


def test_the_migrations_are_read_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from importlib.resources import files; print(files('migrations').joinpath('env.py').resolve())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == tmp_path / "migrations" / "env.py"
    assert Path(done.stdout.strip()).is_file()


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[EmptyEnvironment]:
    """Where also the user `nobody` can run PostgreSQL's programs, so that they need no copy."""
    with servers.server_folder() as folder:
        yield EmptyEnvironment(folder, wheel)


#: What measures and draws replays, which only the extra `simulate` has the libraries for.
DRAWING = ("simulation.measures", "simulation.report", "simulation.trial")


def test_installed_alone_every_module_is_the_wheels_and_finds_what_it_needs(
    installed: EmptyEnvironment,
) -> None:
    _assert_all_is_found(installed, besides=DRAWING)
    examples = ROOT / "examples" / "simulation"
    done = installed.run(
        "muster", "simulate", examples / "sacct.txt", "-c", examples / "cluster.yaml", "-p", "fifo"
    )
    assert done.returncode != 0
    assert "muster[simulate]" in done.stderr


def test_with_its_extra_every_module_finds_what_it_needs(wheel: Path) -> None:
    with servers.server_folder() as folder:
        _assert_all_is_found(EmptyEnvironment(folder, wheel, extras={"simulate"}))


def _assert_all_is_found(installed: EmptyEnvironment, *, besides: tuple[str, ...] = ()) -> None:
    code = """
import importlib, pkgutil, sys
for package in ("service", "workers", "simulation", "migrations"):
    module = importlib.import_module(package)
    print(*module.__path__)
    for found in pkgutil.walk_packages(module.__path__, f"{package}."):
        # What Alembic runs by itself, and what starts when it is imported, is run below.
        if package == "migrations" or found.name.endswith("__main__"):
            continue
        if not found.name.startswith(tuple(sys.argv[1:])):
            importlib.import_module(found.name)
"""
    done = installed.run("python", "-c", code, *besides)
    assert done.returncode == 0, done.stderr
    packages = [
        str(installed.packages / package) for package in ("service", "workers", "simulation", "migrations")
    ]
    assert done.stdout.split() == packages


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_installed_command_says_its_version(installed: EmptyEnvironment, arguments: list[str]) -> None:
    done = installed.run("muster", *arguments)
    assert (done.returncode, done.stdout) == (0, f"muster {service.__version__}\n"), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.xdist_group("stack")
def test_the_installed_stack_takes_a_group_to_its_success(installed: EmptyEnvironment) -> None:
    with servers.server_folder() as folder, data_folder(folder) as data:
        environ = installed.environ() | {"MUSTER_DATA": str(data)}
        up = Up(data, environ=environ, program=[installed.bin / "muster"])
        try:
            _assert_is_the_wheels(up, installed)
            command = ["sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"']
            done = installed.run(
                "muster", "--data", data, "run", "--name", "first", "-n", "3", "-g", "2", "-w", "--", *command
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said = installed.run("muster", "--data", data, "logs", "first")
            assert said.stdout == "rank 0 of 3\n", said.stderr
            with up.client() as client:
                assert_clean(client)
            for kind in ("api", "worker", "dispatcher", "ticker"):
                assert _is_well(up, installed, kind), kind
        finally:
            assert up.stop() == 0
        assert installed.run("muster", "down", "--stop", "--data", data).returncode == 0


def _assert_is_the_wheels(up: Up, installed: EmptyEnvironment) -> None:
    """Every process runs on the environment's interpreter, and sees nothing of the tree."""
    for part in ("api", "worker", "dispatcher", "ticker"):
        process = psutil.Process(up.identity(part).pid)
        assert process.cmdline()[0].startswith(str(installed.bin)), part
        assert "PYTHONPATH" not in process.environ()
        assert not any(str(ROOT) in text for text in (*process.cmdline(), *process.environ().values()))


def _is_well(up: Up, installed: EmptyEnvironment, kind: str) -> bool:
    told = psutil.Process(up.identity(kind).pid).environ()
    done = subprocess.run(
        [installed.bin / "muster", "health", kind], env=told, capture_output=True, check=False
    )
    return done.returncode == 0
