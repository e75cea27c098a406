"""What the launcher knows of its members: the records on disk, read again only when they changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.points import reach
from workers.launchers.base import MemberKey, MemberObservation
from workers.launchers.local import records
from workers.launchers.local.layout import Layout
from workers.launchers.local.records import End, MemberFile, Record


@dataclass(frozen=True, slots=True)
class _Known:
    size: int
    file: MemberFile
    observation: MemberObservation


class KnownMembers:
    """All members that have a record, by key. Safe to use from several threads."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lock = threading.Lock()
        self._members: dict[MemberKey, _Known] = {}

    @property
    def owner(self) -> str:
        """Names the launcher in its members' environment."""
        return self._layout.owner

    def observe(self) -> list[MemberObservation]:
        """Tell what is known, without looking at the disk."""
        with self._lock:
            return [known.observation for known in self._members.values()]

    def find(self, key: MemberKey) -> MemberFile | None:
        """Find what the record of a member says, as far as it was read."""
        with self._lock:
            known = self._members.get(key)
        return known.file if known else None

    def live(self) -> list[Record]:
        """List the members of which no end is known."""
        with self._lock:
            return [known.file.record for known in self._members.values() if known.file.end is None]

    def without_end(self, candidates: Sequence[Record]) -> list[Record]:
        """Read those again that a supervisor may have ended just before itself; who still has no end."""
        self.refresh([record.key for record in candidates])
        open_keys = {record.key for record in self.live()}
        return [record for record in candidates if record.key in open_keys]

    def of_unit(self, unit_id: int) -> list[MemberFile]:
        """Read what there is of one unit, on disk and now."""
        keys = self._layout.list_records(unit_id)
        self.refresh(keys)
        with self._lock:
            return [known.file for key in keys if (known := self._members.get(key))]

    def refresh(self, keys: Iterable[MemberKey]) -> bool:
        """Read the records that grew since they were read; True if any did, came or went."""
        return sum(self._refresh(key) for key in keys) > 0

    def refresh_all(self) -> bool:
        """Look for every record: of members started by others, too, and of those that went."""
        found = {key for unit_id in self._layout.list_units() for key in self._layout.list_records(unit_id)}
        with self._lock:
            found.update(self._members)
        return self.refresh(found)

    def add_end(self, record: Record, end: End) -> None:
        """Note durably how a member ended that has no supervisor any more to do so."""
        # Not there if it never ran: its supervisor saw the tombstone and took the record back.
        with contextlib.suppress(FileNotFoundError):
            records.add_end(self._layout, record.key, end=end)
        self.refresh([record.key])

    def drop_ended(self, unit_id: int, keys: Container[MemberKey]) -> None:
        """Drop the records of the unit's ended members that are in `keys`, and what lies beside them."""
        files = self.of_unit(unit_id)
        dropped = [file.record.key for file in files if file.end and file.record.key in keys]
        for key in dropped:
            self._layout.record(key).unlink(missing_ok=True)
            reach("launcher.record-dropped")
            self._layout.stop_order(key).unlink(missing_ok=True)
            reach("launcher.stop-order-dropped")
            with self._lock:
                self._members.pop(key, None)
        live = {file.record.key.of for file in files if not file.end}
        for generation in {key.of for key in dropped} - live:
            self._layout.port(generation).unlink(missing_ok=True)
            reach("launcher.port-dropped")
        self._layout.drop_unit_without_records(unit_id)

    def drop_ended_before(self, instant: datetime) -> bool:
        """Drop the records of members that ended before `instant`; True if there were any."""
        with self._lock:
            files = [known.file for known in self._members.values()]
        old = {file.record.key for file in files if file.end and file.end.ended_at < instant}
        for unit_id in {key.unit_id for key in old}:
            self.drop_ended(unit_id, old)
        return bool(old)

    def _refresh(self, key: MemberKey) -> bool:
        try:
            size = self._layout.record(key).stat().st_size
        except FileNotFoundError:
            with self._lock:
                return self._members.pop(key, None) is not None
        with self._lock:
            known = self._members.get(key)
        if known and (known.size == size or known.file.end):
            return False
        file = records.read_member(self._layout, key)
        if file is None:
            return False
        with self._lock:
            self._members[key] = _Known(size, file, file.observe())
        return True
