"""`make setup` takes the first Python that really runs, or says in one line what to install."""

from __future__ import annotations

import os
import subprocess
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
    assert run(programs, f"{programs}/mine").stdout == f"{programs}/mine scripts/make_venv.py stamp\n"


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


def check_refusal(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
