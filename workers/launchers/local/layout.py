"""Where the launcher keeps what must outlive its processes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from workers.launchers.base import GenerationKey, MemberKey

_RECORD = ".record"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths under the launcher's folder. One folder for each unit keeps a look at a unit cheap."""

    root: Path

    @property
    def owner(self) -> str:
        """Names this folder in the environment of its members: other launchers on the machine, of other
        Musters, have units of the same numbers (X4)."""
        return str(self.root.resolve())

    @property
    def tombstones(self) -> Path:
        return self.root / "tombstones"

    @property
    def units(self) -> Path:
        return self.root / "units"

    @property
    def supervisor_log(self) -> Path:
        """What supervisors say when they fail unexpectedly."""
        return self.root / "supervisors.log"

    def tombstone(self, unit_id: int) -> Path:
        return self.tombstones / str(unit_id)

    def unit(self, unit_id: int) -> Path:
        return self.units / str(unit_id)

    def record(self, key: MemberKey) -> Path:
        return self.unit(key.unit_id) / f"{key.attempt}.{key.generation}.{key.member}{_RECORD}"

    def stop_order(self, key: MemberKey) -> Path:
        return self.record(key).with_suffix(".stop")

    def port(self, key: GenerationKey) -> Path:
        return self.unit(key.unit_id) / f"{key.attempt}.{key.generation}.port"

    def make(self) -> None:
        """Make the folders, for this user alone."""
        for folder in (self.root, self.tombstones, self.units):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make_unit(self, unit_id: int) -> None:
        """Make the folder of a unit, without which no supervisor can write a record."""
        self.unit(unit_id).mkdir(mode=0o700, exist_ok=True)

    def drop_unit_without_records(self, unit_id: int) -> None:
        """Drop the folder of a unit that has no record, with ports and what killed supervisors left.

        One that is about to write a record then fails to, and starts nothing.
        """
        folder = self.unit(unit_id)
        if folder.exists() and not self.list_records(unit_id):
            shutil.rmtree(folder, ignore_errors=True)

    def list_units(self) -> list[int]:
        """List the units of which anything is kept."""
        return [int(folder.name) for folder in self.units.iterdir() if folder.name.isdecimal()]

    def list_records(self, unit_id: int) -> list[MemberKey]:
        """List the members of a unit that have a record."""
        try:
            names = [path.stem for path in self.unit(unit_id).iterdir() if path.suffix == _RECORD]
        except FileNotFoundError:
            return []
        return [key for name in names if (key := _parse(unit_id, name))]


def _parse(unit_id: int, name: str) -> MemberKey | None:
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    attempt, generation, member = map(int, parts)
    return MemberKey(unit_id, attempt, generation, member)


def parse_mark(mark: str) -> MemberKey | None:
    """Read what MUSTER_MEMBER says; None if it is no mark of ours."""
    parts = mark.split("/")
    if len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return None
    return MemberKey(*map(int, parts))
