"""`make setup` takes the first Python that really runs, or says in one line what to install."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

BROKEN = "echo shim: command not found >&2; exit 127"
OLD = "exit 1"
GOOD = 'case "$1" in -c) exit 0;; *) echo "$0 $*";; esac'
WITHOUT_ENSUREPIP = 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder that is the whole PATH of the script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def add(programs: Path, name: str, script: str) -> None:
    program = programs / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def run(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "scripts/setup.sh", "stamp", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={"PATH": os.fspath(programs)}, capture_output=True, text=True, check=False
    )


def test_shims_that_fail_and_old_ones_are_skipped(programs: Path) -> None:
    add(programs, "python3.14", BROKEN)
    add(programs, "python3.13", OLD)
    add(programs, "python3.12", GOOD)
    add(programs, "python3.11", GOOD)
    done = run(programs)
    assert done.stdout == f"{programs}/python3.12 scripts/make_venv.py stamp\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_named_python_is_taken(programs: Path) -> None:
    add(programs, "python3.14", GOOD)
    add(programs, "mine", GOOD)
    done = run(programs, f"{programs}/mine")
    assert done.stdout == f"{programs}/mine scripts/make_venv.py stamp --named\n"


def test_a_named_python_may_have_spaces_on_its_path(programs: Path) -> None:
    add(programs, "my python", GOOD)
    done = run(programs, f"{programs}/my python")
    assert (done.stdout, done.stderr) == (f"{programs}/my python scripts/make_venv.py stamp --named\n", "")


def test_a_named_python_that_fails_is_not_replaced_by_another(programs: Path) -> None:
    add(programs, "python3.14", GOOD)
    add(programs, "mine", OLD)
    check_refusal(run(programs, "mine"), "mine is not a Python 3.11 or newer")


def test_without_any_python_one_line_says_what_to_install(programs: Path) -> None:
    add(programs, "python3", OLD)
    check_refusal(run(programs), "install it (Debian: apt-get install python3 python3-venv)")


def test_without_ensurepip_one_line_says_what_to_install(programs: Path) -> None:
    add(programs, "python3", WITHOUT_ENSUREPIP)
    check_refusal(run(programs), "install it (Debian: apt-get install python3-venv)")


# ------------------------------------------------------------------------------------------- make setup
MAKING = 'case "$1" in -c) exit 0;; *) echo "making"; mkdir -p .venv; touch "$2";; esac'


@pytest.fixture
def checkout(tmp_path: Path, programs: Path) -> Path:
    """A copy of what `make setup` is made of, with a Python that only touches the stamp."""
    folder = tmp_path / "check out"
    for name in ("Makefile", "pyproject.toml", "requirements/dev.txt", "scripts/setup.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    add(programs, "python3.14", MAKING)
    return folder


def make_setup(checkout: Path, programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{programs}:/usr/bin:/bin"
    command = ["make", "setup", *arguments]
    return subprocess.run(
        command, cwd=checkout, env={"PATH": path}, capture_output=True, text=True, check=False
    )


def test_a_repeated_set_up_does_nothing(checkout: Path, programs: Path) -> None:
    first = make_setup(checkout, programs)
    assert (first.returncode, first.stdout, first.stderr) == (0, "making\n", "")
    for _ in range(2):
        again = make_setup(checkout, programs)
        assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    (checkout / "requirements" / "dev.txt").touch()
    assert make_setup(checkout, programs).stdout == "making\n"


def test_a_python_that_is_named_later_is_not_overlooked(checkout: Path, programs: Path) -> None:
    make_setup(checkout, programs)
    done = make_setup(checkout, programs, "PYTHON=/nonexistent/python3")
    assert done.returncode != 0
    assert "/nonexistent/python3 is not a Python 3.11 or newer that runs" in done.stderr
    add(programs, "my python", GOOD)
    done = make_setup(checkout, programs, f"PYTHON={programs}/my python")
    assert done.stdout == f"{programs}/my python scripts/make_venv.py .venv/installed --named\n"


def test_a_virtual_environment_knows_its_python(checkout: Path) -> None:
    script = shutil.copy(ROOT / "scripts" / "make_venv.py", checkout / "scripts")
    venv.create(checkout / ".venv", symlinks=True)
    is_of_this_python = runpy.run_path(os.fspath(script))["is_of_this_python"]
    assert is_of_this_python()
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\necho 3 12 1 final 0 /usr\n")
    (checkout / ".venv" / "bin" / "python").chmod(0o755)
    assert not is_of_this_python()


def check_refusal(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
