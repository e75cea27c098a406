"""What a simulated cluster remembers when the process that simulates it is killed: one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec


class SimulatedMember(msgspec.Struct):
    """One member on the clock. `ends_at`: when it ends by itself; `stop_seconds`: how long it takes to stop
    once it is told to, `stops_at`: when it has; `kill_at`: when its grace is over. `is_lost`: gone without an
    exit code."""

    unit_id: int
    attempt: int
    generation: int
    member: int
    pool: str
    group: str
    node: str
    devices: tuple[int, ...]
    started_at: datetime
    is_ready: bool = True
    ends_at: datetime | None = None
    exit_code: int = 0
    stop_seconds: float = 0.0
    stops_at: datetime | None = None
    kill_at: datetime | None = None
    was_told_to_stop: bool = False
    ended_at: datetime | None = None
    is_lost: bool = False

    @property
    def key(self) -> tuple[int, int, int, int]:
        return (self.unit_id, self.attempt, self.generation, self.member)

    @property
    def is_live(self) -> bool:
        return self.ended_at is None


class Tombstone(msgspec.Struct, frozen=True):
    """Up to this generation the attempt, and every earlier attempt of the unit, is closed."""

    pool: str
    unit_id: int
    attempt: int
    generation: int
    closed_at: datetime


class MemberTombstone(msgspec.Struct, frozen=True):
    """The member is closed as it was placed up to this revision."""

    pool: str
    unit_id: int
    attempt: int
    generation: int
    member: int
    revision: int
    closed_at: datetime

    @property
    def key(self) -> tuple[int, int, int, int]:
        return (self.unit_id, self.attempt, self.generation, self.member)


class Journal:
    """The members and tombstones of a cluster in a file, written through after each call."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS members (key TEXT PRIMARY KEY, body BLOB NOT NULL)")
        self._db.execute("CREATE TABLE IF NOT EXISTS tombstones (key TEXT PRIMARY KEY, body BLOB NOT NULL)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS closed_members (key TEXT PRIMARY KEY, body BLOB NOT NULL)"
        )
        self._db.commit()

    def members(self) -> list[SimulatedMember]:
        rows = self._db.execute("SELECT body FROM members").fetchall()
        return [msgspec.json.decode(body, type=SimulatedMember) for (body,) in rows]

    def tombstones(self) -> list[Tombstone]:
        rows = self._db.execute("SELECT body FROM tombstones").fetchall()
        return [msgspec.json.decode(body, type=Tombstone) for (body,) in rows]

    def closed_members(self) -> list[MemberTombstone]:
        rows = self._db.execute("SELECT body FROM closed_members").fetchall()
        return [msgspec.json.decode(body, type=MemberTombstone) for (body,) in rows]

    def save(
        self,
        *,
        members: Iterable[SimulatedMember],
        tombstones: Iterable[Tombstone],
        closed_members: Iterable[MemberTombstone],
        forgotten: Iterable[tuple[int, int, int, int]],
    ) -> None:
        """Write what has changed, durably, in one transaction."""
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO members VALUES (?, ?)",
                [(repr(member.key), msgspec.json.encode(member)) for member in members],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO tombstones VALUES (?, ?)",
                [(f"{one.pool}/{one.unit_id}", msgspec.json.encode(one)) for one in tombstones],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO closed_members VALUES (?, ?)",
                [(repr((one.pool, *one.key)), msgspec.json.encode(one)) for one in closed_members],
            )
            self._db.executemany("DELETE FROM members WHERE key = ?", [(repr(key),) for key in forgotten])

    def drop_tombstones(self, *, before: datetime) -> None:
        """X6: they live seven days."""
        with self._db:
            for one in self.tombstones():
                if one.closed_at.astimezone(UTC) < before:
                    self._db.execute("DELETE FROM tombstones WHERE key = ?", (f"{one.pool}/{one.unit_id}",))
            for member in self.closed_members():
                if member.closed_at.astimezone(UTC) < before:
                    name = repr((member.pool, *member.key))
                    self._db.execute("DELETE FROM closed_members WHERE key = ?", (name,))

    def close(self) -> None:
        self._db.close()
