"""A virtual environment that holds a wheel, what the wheel says that it needs, and nothing else.

The needed packages are links to those of the present environment. An installer would have to fetch them:
a test that depends on a registry fails for reasons that are not ours, and without one there is nothing to
install from. So a dependency that the wheel does not name is missing here, as it would be for its user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class EmptyEnvironment:
    """Made in `folder`, which lies outside of the tree. `bin` has its programs. `extras`: of the wheel."""

    def __init__(self, folder: Path, wheel: Path, *, extras: Collection[str] = ()) -> None:
        self.bin = folder / "venv" / "bin"
        self._home = folder / "home"
        self._home.mkdir()
        _run(sys.executable, "-m", "venv", folder / "venv")
        install = ("install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
        _run(self.bin / "python", "-m", "pip", *install, wheel)
        [self.packages] = (folder / "venv" / "lib").glob("python*/site-packages")
        [held] = [each for each in distributions(path=[str(self.packages)]) if each.name == "muster"]
        for needed in _closure(held, {"", *extras}):
            self._link(needed)

    def environ(self) -> dict[str, str]:
        """No variable of the caller's, so no PYTHONPATH either."""
        return {"PATH": os.pathsep.join([str(self.bin), os.defpath]), "HOME": str(self._home)}

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, from a folder where nothing lies."""
        program, *arguments = command
        return subprocess.run(
            [self.bin / program, *map(str, arguments)],
            cwd=self._home,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def _link(self, needed: Distribution) -> None:
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            link = self.packages / name
            if not link.exists():
                link.symlink_to(Path(str(needed.locate_file(name))).resolve())


def _closure(root: Distribution, own_extras: set[str]) -> list[Distribution]:
    """All that `root` needs with these extras of its own."""
    found: dict[str, Distribution] = {}
    waiting = [requirement for text in root.requires or () for requirement in _wanted(text, own_extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        needed = found.setdefault(key[0], distribution(requirement.name))
        assert requirement.specifier.contains(needed.version, prereleases=True), (requirement, needed.version)
        extras = {"", *requirement.extras}
        waiting += [each for text in needed.requires or () for each in _wanted(text, extras)]
    return list(found.values())


def _wanted(text: str, extras: set[str]) -> list[Requirement]:
    requirement = Requirement(text)
    marker = requirement.marker
    is_wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
    return [requirement] if is_wanted else []


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=90)
