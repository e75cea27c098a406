"""The machine that a figure is of: what matters for speed, and nothing that names it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import msgspec
import psutil

from workers.embedded.folders import unprivileged_user
from workers.embedded.program import find_postgres, find_valkey

_VERSION = re.compile(r"\d+(\.\d+)+")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Cores are those that this process may use."""

    processor: str
    cores: int
    memory_gib: int
    system: str
    python: str
    postgresql: str
    valkey: str


def describe_machine(folder: Path) -> Machine:
    """Look at this machine. `folder` is one that the servers' user can enter."""
    return Machine(
        processor=_processor(),
        cores=_cores(),
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        postgresql=_version_of(find_postgres(folder, unprivileged_user()) / "postgres"),
        valkey=_version_of(find_valkey()),
    )


def load_average() -> float:
    """How many processes wanted a core in the last minute."""
    return round(os.getloadavg()[0], 1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE)):
        return found[1].strip()
    return platform.processor() or platform.machine()


def _version_of(program: Path) -> str:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, cwd="/").stdout
    found = _VERSION.search(told)
    return found[0] if found else told.strip()
