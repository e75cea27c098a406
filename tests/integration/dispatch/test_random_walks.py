"""Seeded walks through everything that can happen, with the rules that always hold after each pass."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sqlalchemy import text

from tests.integration.dispatch.site import START, Seat, Site, Unit
from workers.launchers.simulated_behaviour import Exit

_STEPS = 80
_DEVICES = [(name, index) for name in ("n1", "n2") for index in range(8)]


@dataclass
class Walk:
    """Admits what waits as a leader would, and lets things happen."""

    site: Site
    random: random.Random
    units: list[Unit] = field(default_factory=list)
    seconds: float = 1.0

    def step(self) -> None:
        self.seconds += self.random.choice((0, 1, 7, 31))
        self.site.clock.move_to(START + timedelta(seconds=self.seconds))
        [happens] = self.random.choices(list(self.weights), list(self.weights.values()))
        happens()
        self.admit_what_waits()
        self.site.dispatcher.pass_once()

    @property
    def weights(self) -> dict[Callable[[], None], int]:
        """What happens, and how often."""
        return {
            self.submit: 8,
            self.end_one: 5,
            self.fail_one: 4,
            self.cancel_one: 1,
            self.node_fails: 2,
            self.node_returns: 3,
            self.behave: 3,
            self.restart: 2,
            self.lose_launcher: 1,
            self.find_launcher: 3,
            self.drain: 1,
            self.uncordon: 2,
            self.time_passes: 2,
        }

    # ------------------------------------------------------------ what happens
    def submit(self) -> None:
        seats = self.free_seats(self.random.randint(1, 4))
        if seats:
            index = 0 if len(seats) == 1 and self.random.random() < 0.5 else None
            self.units.append(
                self.site.admit(
                    f"g{len(self.units)}",
                    seats,
                    index=index,
                    grace_seconds=self.random.choice((0, 10)),
                    time_limit_seconds=self.random.choice((None, 100)),
                    start_timeout_seconds=self.random.choice((None, 60)),
                    max_restarts=self.random.choice((0, 2)),
                    seat_timeout_seconds=self.random.choice((5, 60)),
                )
            )

    def end_one(self) -> None:
        live = self.site.cluster.live_members()
        if live:
            key = self.random.choice(live)
            self.site.cluster.end(self.name_of(key.unit_id), member=key.member)

    def fail_one(self) -> None:
        live = self.site.cluster.live_members()
        if live:
            key = self.random.choice(live)
            self.site.cluster.end(self.name_of(key.unit_id), member=key.member, exit_code=1)

    def cancel_one(self) -> None:
        if self.units:
            self.site.cancel(self.random.choice(self.units))

    def node_fails(self) -> None:
        self.site.cluster.node_down(self.random.choice(("n1", "n2")))

    def node_returns(self) -> None:
        for name in ("n1", "n2"):
            self.site.cluster.node_up(name)

    def behave(self) -> None:
        if self.units:
            self.site.cluster.behave(
                self.random.choice(self.units).name,
                refuses=self.random.random() < 0.2,
                message="no",
                is_ready=self.random.random() < 0.7,
                exits=self.random.choice(list(Exit)),
            )

    def restart(self) -> None:
        self.site.restart()

    def lose_launcher(self) -> None:
        self.site.cluster.set_reachable("p1", is_reachable=False)

    def find_launcher(self) -> None:
        self.site.cluster.set_reachable("p1", is_reachable=True)

    def drain(self) -> None:
        self._set_drain("is_cordoned = true, drain_at = :at")

    def uncordon(self) -> None:
        self._set_drain("is_cordoned = false, drain_at = NULL")

    def _set_drain(self, what: str) -> None:
        with self.site.engine.begin() as conn:
            conn.execute(text(f"UPDATE nodes SET {what} WHERE name = 'n1'"), {"at": self.site.clock.now()})

    def time_passes(self) -> None:
        self.seconds += 120
        self.site.clock.move_to(START + timedelta(seconds=self.seconds))

    # ------------------------------------------------------------ the leader's part
    def free_seats(self, count: int) -> list[Seat]:
        taken = {
            (row.name, row.device)
            for row in self.site.rows(
                "SELECT n.name, d.device FROM devices d JOIN nodes n ON n.id = d.node_id"
                " LEFT JOIN held_devices h USING (node_id, device)"
                " WHERE h.unit_id IS NOT NULL OR d.lost_at IS NOT NULL OR NOT n.is_ready OR n.is_cordoned"
            )
        }
        free: list[Seat] = [(name, (index,)) for name, index in _DEVICES if (name, index) not in taken]
        self.random.shuffle(free)
        return free[:count] if len(free) >= count else []

    def admit_what_waits(self) -> None:
        for unit in self.units:
            row = self.site.unit(unit)
            is_due = row.backoff_until is None or row.backoff_until <= self.site.clock.now()
            if row.status == "Pending" and not row.is_held and is_due:
                [closed] = self.site.rows(
                    "SELECT jsonb_array_length(places) AS n FROM closed_attempts WHERE unit_id = :id"
                    " ORDER BY attempt DESC LIMIT 1",
                    id=unit.id,
                )
                seats = self.free_seats(closed.n)
                if seats:
                    self.site.admit_again(unit, seats)

    def name_of(self, unit_id: int) -> str:
        return next(unit.name for unit in self.units if unit.id == unit_id)

    # ------------------------------------------------------------ what must hold
    def check(self) -> None:
        site = self.site
        live = {key.of for key in site.cluster.live_members()}
        rows = {row.id: row for row in site.rows("SELECT * FROM units WHERE first_index = last_index")}
        attempts = {row.unit_id: row for row in site.rows("SELECT * FROM attempts")}
        lost = {row.lost_note for row in site.rows("SELECT lost_note FROM devices WHERE lost_at IS NOT NULL")}
        # Who lives is in the books with this attempt, or sits on devices that are lost (X5).
        for key in live:
            attempt = attempts.get(key.unit_id)
            is_known = attempt is not None and (attempt.attempt, attempt.generation) == (
                key.attempt,
                key.generation,
            )
            assert is_known or f"{key.unit_id}/{key.attempt}/{key.generation}" in lost, key
        # Exactly who holds places has an attempt, and it is of the unit's present attempt.
        holding = {
            id_
            for id_, row in rows.items()
            if row.status in ("Admitted", "Starting", "Running", "Recovering", "Evicting")
        }
        assert holding == set(attempts)
        assert all(rows[id_].attempt == attempts[id_].attempt for id_ in holding)
        held = {row.unit_id for row in site.rows("SELECT unit_id FROM held_devices")}
        assert held == holding
        # No device was ever given to two members at once, and no attempt was charged twice.
        assert site.cluster.records.double_booked == []
        for id_, row in rows.items():
            closed = site.rows(
                "SELECT attempt, outcome FROM closed_attempts WHERE unit_id = :id ORDER BY 1", id=id_
            )
            ended = row.status in ("Succeeded", "Failed", "Cancelled")
            last = row.attempt if ended else row.attempt - 1
            assert [one.attempt for one in closed] == list(range(1, last + 1))
            outcomes = [one.outcome for one in closed]
            assert outcomes[: row.attempt - 1] == ["Requeued"] * (row.attempt - 1)
            assert not ended or outcomes[-1] == row.status


@pytest.mark.parametrize("seed", range(6))
def test_the_rules_hold_whatever_happens(site: Site, seed: int) -> None:
    walk = Walk(site, random.Random(seed))
    for _ in range(_STEPS):
        walk.step()
        walk.check()
    assert len(site.rows("SELECT outcome FROM closed_attempts")) > 4

    # In the end everything can be ended, and nothing is left.
    site.cluster.set_reachable("p1", is_reachable=True)
    walk.node_returns()
    for unit in walk.units:
        site.cluster.behave(unit.name, exits=Exit.AT_ONCE)
        site.cancel(unit)
    walk.seconds += 100
    site.pass_at(walk.seconds)
    assert site.held() == 0
    assert site.cluster.live_members() == []
    assert site.rows("SELECT device FROM devices WHERE lost_at IS NOT NULL") == []
    assert site.rows("SELECT unit_id FROM attempts") == []
