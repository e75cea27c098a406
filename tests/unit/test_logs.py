"""What a process says of itself, also where nothing can be written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import logging, sys
import structlog
from service.logs import configure_logs
from service.settings import Settings
configure_logs(Settings(log_format=sys.argv[1]), name="worker")
for number in range(3):
    structlog.get_logger("a").warning("said", number=number, name="\\udcff")
    logging.getLogger("somebody").warning("said by a library")
print("done")
"""


def said_by(log_format: str, errors: int | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM, log_format]
    if isinstance(errors, int):
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    with errors.open("w") as stream:
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=stream, text=True, timeout=30, check=False
        )


def test_a_line_is_an_object() -> None:
    done = said_by("json", subprocess.PIPE)
    own = [json.loads(line) for line in done.stderr.splitlines()][::2]
    assert [(line["event"], line["number"], line["process"]) for line in own] == [
        ("said", number, "worker") for number in range(3)
    ]


def test_people_read_text() -> None:
    done = said_by("text", subprocess.PIPE)
    assert len([line for line in done.stderr.splitlines() if "said" in line and "number" in line]) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_full_disk_costs_lines_and_not_the_work(log_format: str) -> None:
    done = said_by(log_format, Path("/dev/full"))
    assert (done.returncode, done.stdout) == (0, "done\n")
