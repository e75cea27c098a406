"""Brings `.venv` to what requirements/dev.txt and pyproject.toml ask for.

Run by `scripts/setup.sh` with the Python that the environment shall have. Repeats are cheap: the
pinned packages are installed again only when the pins have changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
PINS = ROOT / "requirements" / "dev.txt"
PINS_RECORD = VENV / "pins.sha256"


def main(stamp: Path, *, is_named: bool) -> None:
    """Makes or updates the environment and touches `stamp` when all of it is in place. With `is_named`
    it shall have the very Python that runs this."""
    with PINS.open() as lock:
        # Two `make` runs at once would have two installers write the same files.
        fcntl.flock(lock, fcntl.LOCK_EX)
        version = sys.version.split()[0]
        if not is_usable():
            say(f"Making .venv with Python {version}")
            create()
        elif is_named and not is_of_this_python():
            say(f"Making .venv anew with Python {version}: it has another than {sys.executable}")
            create()
        elif is_current(stamp):
            return
        install_pins()
        install_project()
        stamp.touch()


def create() -> None:
    venv.create(VENV, clear=True, with_pip=True, symlinks=True)


def is_of_this_python() -> bool:
    """Whether `.venv` was made with the Python that runs this, or with one of the same installation."""
    ask = "import sys; print(*sys.version_info, sys.base_prefix)"
    done = subprocess.run([VENV_PYTHON, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() == " ".join(map(str, (*sys.version_info, sys.base_prefix)))


def is_current(stamp: Path) -> bool:
    """Whether everything is in place since the last change of what is asked for."""
    wanted = max(path.stat().st_mtime for path in (PINS, ROOT / "pyproject.toml"))
    return stamp.exists() and stamp.stat().st_mtime >= wanted


def is_usable() -> bool:
    """Whether `.venv` has a Python that still runs, is new enough and has pip."""
    if not VENV_PYTHON.exists():
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([VENV_PYTHON, "-c", check], capture_output=True, check=False).returncode == 0


def install_pins() -> None:
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if PINS_RECORD.exists() and PINS_RECORD.read_text() == digest:
        return
    say("Installing requirements/dev.txt (a minute or two the first time)")
    pip("--require-hashes", "-r", str(PINS))
    PINS_RECORD.write_text(digest)


def install_project() -> None:
    # The build backend is among the pins, so nothing is downloaded for the build.
    pip("--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT))


def pip(*arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    command: list[str | Path] = [VENV_PYTHON, "-m", "pip", "install", *quiet, *arguments]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit("make setup: pip could not install what is listed above")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), is_named="--named" in sys.argv[2:])
