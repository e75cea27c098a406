"""The World that was kept up to date equals one that is loaded afresh, whatever happened."""

from __future__ import annotations

import random
import threading
from contextlib import ExitStack
from uuid import UUID

import pytest
import redis
from sqlalchemy import Connection, Engine, text

from service.admission.resident import World
from service.clock import VirtualClock
from service.domain.errors import MusterError
from service.domain.events import Kind
from service.domain.group import GroupSpec
from service.domain.principal import KeyRole, Principal
from service.inventory.ledger import Ledger
from service.operations.cancel import cancel_group, cancel_member
from service.operations.load_world import load_world
from service.store.config import raise_config_version
from tests.integration.leader.site import START, Site, gang, independent, submit
from workers.admission import Leader

ADMIN = Principal(tenant="t", user="o", role=KeyRole.ADMIN)


class Life:
    """Everything that others do to a site, at random."""

    def __init__(self, site: Site, seed: int, open_transactions: ExitStack) -> None:
        self.site = site
        self.random = random.Random(seed)
        self.late: list[Connection] = []
        self._open = open_transactions

    def step(self) -> None:
        self.random.choice(
            [
                self.submit,
                self.submit,
                self.submit_and_commit_later,
                self.commit_what_is_late,
                self.cancel,
                self.cancel_a_member,
                self.end,
                self.end,
                self.requeue,
                self.lose_or_find_a_device,
                self.cordon_or_uncordon,
                self.stop_or_start_the_queue,
            ]
        )()

    def submit(self) -> None:
        self.site.submit(self.random.randint(1, 4), spec=self._spec())

    def submit_and_commit_later(self) -> None:
        if len(self.late) == 3:
            self.commit_what_is_late()
        conn = self._open.enter_context(self.site.engine.connect())
        conn.begin()
        submit(conn, self.site.queue_id, spec=gang(1, 1))
        self.late.append(conn)

    def commit_what_is_late(self) -> None:
        self.random.shuffle(self.late)
        if self.late:
            with self.late.pop() as conn:
                conn.commit()

    def cancel(self) -> None:
        if group := self._any("SELECT public_id FROM groups"):
            cancel_group(self.site.engine, group, principal=ADMIN, now=START)

    def cancel_a_member(self) -> None:
        if group := self._any("SELECT public_id FROM groups WHERE scheduling = 'independent'"):
            member = self.random.randrange(12)
            try:
                cancel_member(self.site.engine, group, member=member, principal=ADMIN, now=START)
            except MusterError:
                return

    def end(self) -> None:
        """As the dispatcher does: an evicted unit ends as its target says."""
        live = self.site.rows("SELECT unit_id, evict_target FROM attempts ORDER BY 1")
        if live:
            unit, target = self.random.choice(live)
            self.site.end(unit, Kind(target) if target else Kind.SUCCEEDED)

    def requeue(self) -> None:
        live = self.site.rows("SELECT unit_id FROM attempts WHERE evict_target IS NULL ORDER BY 1")
        if live:
            self.site.requeue(self.random.choice(live).unit_id)

    def lose_or_find_a_device(self) -> None:
        self._configure(
            "UPDATE devices SET lost_at = CASE WHEN lost_at IS NULL THEN now() END"
            " WHERE node_id = :node AND device = :device",
            device=self.random.randrange(8),
        )

    def cordon_or_uncordon(self) -> None:
        self._configure("UPDATE nodes SET is_cordoned = NOT is_cordoned WHERE id = :node")

    def stop_or_start_the_queue(self) -> None:
        """Guards stand still meanwhile."""
        with self.site.engine.begin() as conn:
            raise_config_version(conn, has_same_nodes=True)
            conn.execute(text("UPDATE queues SET stop = CASE stop WHEN 'none' THEN 'hold' ELSE 'none' END"))

    def _configure(self, statement: str, **values: int) -> None:
        with self.site.engine.begin() as conn:
            raise_config_version(conn)
            conn.execute(text(statement), {"node": self.random.choice(self.site.node_ids), **values})

    def _spec(self) -> GroupSpec:
        make = self.random.choice([gang, gang, independent])
        return make(self.random.randint(1, 12), self.random.randint(0, 2), priority=self.random.randint(0, 2))

    def _any(self, statement: str) -> UUID | None:
        rows = self.site.rows(statement + " ORDER BY 1")
        return self.random.choice(rows)[0] if rows else None


def fresh(conn: Connection) -> World:
    world = World.empty()
    world.apply(load_world(conn)[0])
    return world


def assert_all_agree(site: Site, leader: Leader, direct: Connection, client: redis.Redis) -> None:
    assert leader.hold_lease()
    leader.apply_releases()
    assert leader.term is not None
    assert leader.term.world.snapshot() == fresh(direct).snapshot()
    state = Ledger(client).read()
    assert state is not None
    ledger = {device: unit for device, (unit, _) in state.holders().items()}
    assert ledger == {
        (row.node_id, row.device): row.unit_id for row in site.rows("SELECT * FROM held_devices")
    }
    lost = site.rows("SELECT node_id, device FROM devices WHERE lost_at IS NOT NULL")
    assert state.lost == {(row.node_id, row.device) for row in lost}


@pytest.mark.parametrize("seed", range(6))
def test_a_kept_world_equals_a_fresh_one(
    site: Site, leader: Leader, direct: Connection, client: redis.Redis, clock: VirtualClock, seed: int
) -> None:
    site.submit()  # Shapes and statistics are there before transactions are left open.
    with ExitStack() as open_transactions:
        life = Life(site, seed, open_transactions)
        for _ in range(60):
            life.step()
            if life.random.random() < 0.5:
                clock.advance(life.random.random())
                assert leader.run_cycle().is_leader
                assert_all_agree(site, leader, direct, client)
        while life.late:
            life.commit_what_is_late()
        assert leader.run_cycle().is_settled
        assert_all_agree(site, leader, direct, client)
    assert site.rows("SELECT count(*) FROM attempts")[0][0] > 0
    assert leader.term is not None
    assert leader.term.epoch == 1


def test_nothing_is_lost_while_many_change_things_at_once(
    site: Site, leader: Leader, direct: Connection, client: redis.Redis, engine: Engine
) -> None:
    """W1, W4: cycles run while others submit, cancel and end. Nothing is admitted twice, no cancelled
    member starts, and the World is right afterwards."""
    site.submit()
    stop = threading.Event()
    failures: list[BaseException] = []

    def change(seed: int) -> None:
        with ExitStack() as stack:
            life = Life(site, seed, stack)
            verbs = [life.submit, life.cancel, life.cancel_a_member, life.end]
            while not stop.is_set():
                try:
                    life.random.choice(verbs)()
                except BaseException as error:
                    failures.append(error)
                    raise

    # Ends go through one thread, as through one dispatcher; the others submit and cancel.
    threads = [threading.Thread(target=change, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        assert leader.run_cycle().is_leader
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert leader.stale_refusals == []
    assert_all_agree(site, leader, direct, client)
    assert (
        site.rows(
            "SELECT unit_id, attempt FROM events WHERE kind = 'Admitted' GROUP BY 1, 2 HAVING count(*) > 1"
        )
        == []
    )
    # Members of a group are in exactly one row each.
    assert (
        site.rows(
            "SELECT g.id FROM groups g JOIN units u ON u.group_id = g.id WHERE g.scheduling = 'independent'"
            " GROUP BY g.id, g.member_count HAVING sum(u.last_index - u.first_index + 1) <> g.member_count"
        )
        == []
    )
