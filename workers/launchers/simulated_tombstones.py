"""What may never start again in a simulated cluster: generations of a unit, and single members (X2)."""

from __future__ import annotations

from datetime import datetime, timedelta

from workers.launchers.base import GenerationKey, MemberClosing, MemberKey, MemberLaunch
from workers.launchers.simulated_journal import Journal, MemberTombstone, Tombstone

#: X6.
_AGE = timedelta(days=7)


class Tombstones:
    """By pool. `take_new` gives what has to be written."""

    def __init__(self) -> None:
        self._generations: dict[tuple[str, int], Tombstone] = {}
        self._members: dict[tuple[str, MemberKey], MemberTombstone] = {}
        self._new: list[Tombstone] = []
        self._new_members: list[MemberTombstone] = []

    def load(self, journal: Journal, now: datetime) -> None:
        journal.drop_tombstones(before=now - _AGE)
        self._generations = {(one.pool, one.unit_id): one for one in journal.tombstones()}
        self._members = {(one.pool, MemberKey(*one.key)): one for one in journal.closed_members()}

    def close(self, pool: str, key: GenerationKey, *, now: datetime) -> None:
        """That generation and all before it."""
        if not self._is_closed(pool, key):
            made = Tombstone(
                pool=pool,
                unit_id=key.unit_id,
                attempt=key.attempt,
                generation=key.generation,
                closed_at=now,
            )
            self._generations[pool, key.unit_id] = made
            self._new.append(made)

    def close_member(self, pool: str, closing: MemberClosing, *, now: datetime) -> None:
        """That member as it was placed up to the revision."""
        key = (pool, closing.key)
        old = self._members.get(key)
        if old is None or old.revision < closing.revision:
            made = MemberTombstone(pool, *closing.key, revision=closing.revision, closed_at=now)
            self._members[key] = made
            self._new_members.append(made)

    def refusal_of(self, pool: str, launch: MemberLaunch) -> str | None:
        """Why it may not start, if it may not."""
        if self._is_closed(pool, launch.key.of):
            return "this generation is closed"
        closed = self._members.get((pool, launch.key))
        if closed is not None and launch.revision <= closed.revision:
            return "this member is closed"
        return None

    def take_new(self) -> tuple[list[Tombstone], list[MemberTombstone]]:
        """Those since this was asked last."""
        made = self._new, self._new_members
        self._new, self._new_members = [], []
        return made

    def _is_closed(self, pool: str, key: GenerationKey) -> bool:
        tombstone = self._generations.get((pool, key.unit_id))
        return tombstone is not None and (key.attempt, key.generation) <= (
            tombstone.attempt,
            tombstone.generation,
        )
