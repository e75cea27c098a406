"""A small site for tests of the leader: rows as the API and the dispatcher write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, text
from uuid_utils.compat import uuid7

from service.admission.plan import Admission
from service.admission.world import PendingUnit
from service.domain.events import Event, Kind
from service.domain.group import GroupSpec, Role
from service.domain.node import Place
from service.domain.resources import CPUS, MEMORY, Resources
from service.domain.shape import Scheduling
from service.domain.unit import unit_id
from service.store.events import add_events
from service.store.groups import NewGroup, insert_groups
from service.store.shapes import ensure_shapes, shape_digest
from tests.group_ids import new_group_ids

MODEL = "H100-80GB"
START = datetime(2026, 1, 1, tzinfo=UTC)


def bump(conn: Connection) -> None:
    """Every change of queues, pools and nodes raises the version of the configuration (L2)."""
    conn.execute(text("UPDATE config SET version = version + 1 WHERE id = 1"))


def lock_fence(conn: Connection) -> None:
    """As the leader's transaction holds them (L2)."""
    conn.execute(text("SELECT FROM leadership, config FOR SHARE"))


class Site:
    """One pool of nodes with 8 GPUs each, and the queue that every installation has."""

    def __init__(self, engine: Engine, *, nodes: int = 2, gpus: int = 8) -> None:
        self.engine = engine
        with engine.begin() as conn:
            self.pool_id = conn.execute(
                text(
                    "INSERT INTO pools (name, launcher, levels) VALUES ('here', 'simulated', '{host}')"
                    " RETURNING id"
                )
            ).scalar_one()
            self.queue_id = conn.execute(text("SELECT id FROM queues WHERE name = 'default'")).scalar_one()
        self.node_ids = [self.add_node(f"n{number}", gpus=gpus) for number in range(1, nodes + 1)]

    def add_node(self, name: str, *, gpus: int = 8) -> int:
        with self.engine.begin() as conn:
            node_id: int = conn.execute(
                text(
                    "INSERT INTO nodes (name, pool_id, cpus_milli, memory_mib, labels, is_ready, is_cordoned,"
                    " updated_at) VALUES (:name, :pool, :cpus, :memory,"
                    " jsonb_build_object('host', CAST(:name AS text)), true, false, :now) RETURNING id"
                ),
                {
                    "name": name,
                    "pool": self.pool_id,
                    "cpus": 16_000 * gpus,
                    "memory": 131_072 * gpus,
                    "now": START,
                },
            ).scalar_one()
            conn.execute(
                text(
                    "INSERT INTO devices (node_id, device, model, memory_mib, is_healthy)"
                    " SELECT :node, i, :model, 81920, true FROM generate_series(0, :last) AS i"
                ),
                {"node": node_id, "model": MODEL, "last": gpus - 1},
            )
            bump(conn)
        return node_id

    # ------------------------------------------------------------------ groups
    def submit(self, count: int = 1, **spec: Any) -> list[int]:
        """Ids of `count` new groups, committed."""
        with self.engine.begin() as conn:
            return submit(conn, self.queue_id, count, **spec)

    def cancel_waiting(self, unit: int) -> None:
        """Cancel a whole waiting row, as the API does."""
        with self.engine.begin() as conn:
            cancel_waiting(conn, unit)

    def end(self, unit: int, kind: Kind = Kind.SUCCEEDED) -> None:
        """The end of a live attempt, as the dispatcher records it."""
        with self.engine.begin() as conn:
            end(conn, unit, kind)

    def requeue(self, unit: int) -> None:
        """A closed attempt whose unit waits again, as the dispatcher records it."""
        with self.engine.begin() as conn:
            requeue(conn, unit)

    # ------------------------------------------------------------------ looking
    def statuses(self) -> dict[int, str]:
        return dict(self.rows("SELECT id, status FROM units"))

    def held(self) -> int:
        count: int = self.rows("SELECT count(*) FROM held_devices")[0][0]
        return count

    def rows(self, statement: str, **values: object) -> Sequence[Any]:
        with self.engine.connect() as conn:
            return conn.execute(text(statement), values).all()

    def execute(self, statement: str, **values: object) -> None:
        with self.engine.begin() as conn:
            conn.execute(text(statement), values)


def gang(members: int = 1, gpus: int = 1, **more: Any) -> GroupSpec:
    """A group of one role; `more` are fields of GroupSpec."""
    role = Role(
        name="worker",
        count=members,
        min_count=members,
        requests=Resources(gpus=gpus, cpus_milli=1000 * max(gpus, 1), memory_mib=1024),
        command=("true",),
    )
    return GroupSpec(name="g", roles=(role,), **more)


def independent(members: int, gpus: int = 1, **more: Any) -> GroupSpec:
    return gang(members, gpus, scheduling=Scheduling.INDEPENDENT, **more)


def submit(
    conn: Connection, queue_id: int, count: int = 1, *, spec: GroupSpec | None = None, at: datetime = START
) -> list[int]:
    """Insert groups in the caller's transaction; their ids."""
    spec = spec or gang()
    shape = spec.shape()
    shape_ids = ensure_shapes(conn, {shape_digest(shape): shape})
    groups = [
        NewGroup(
            id=group_id,
            public_id=uuid7(),
            spec=spec,
            queue_id=queue_id,
            shape_id=shape_ids[shape_digest(shape)],
            tenant="t",
            owner="o",
            submitted_at=at,
            sealed=None,
        )
        for group_id in new_group_ids(conn, count)
    ]
    insert_groups(conn, groups)
    add_events(
        conn, (Event(at=at, kind=Kind.SUBMITTED, group_id=g.id, unit_id=g.unit_id, attempt=1) for g in groups)
    )
    return [group.id for group in groups]


def cancel_waiting(conn: Connection, unit: int) -> None:
    group_id = unit >> 20
    conn.execute(text("SELECT 1 FROM groups WHERE id = :id FOR NO KEY UPDATE"), {"id": group_id})
    row = conn.execute(text("SELECT status, version FROM units WHERE id = :id"), {"id": unit}).one()
    assert row.status == "Pending"
    conn.execute(
        text(
            "UPDATE units SET status = 'Cancelled', version = version + 1, ended_at = :now"
            " WHERE id = :id AND status = 'Pending' AND version = :version"
        ),
        {"id": unit, "version": row.version, "now": START},
    )
    add_events(conn, [Event(at=START, kind=Kind.CANCELLED, group_id=group_id, unit_id=unit)])


def end(conn: Connection, unit: int, kind: Kind = Kind.SUCCEEDED) -> None:
    if not _close(conn, unit):
        return
    conn.execute(
        text("UPDATE units SET status = :status, version = version + 1, ended_at = :now WHERE id = :id"),
        {"id": unit, "status": kind.value, "now": START},
    )
    add_events(conn, [Event(at=START, kind=kind, group_id=unit >> 20, unit_id=unit)])


def requeue(conn: Connection, unit: int) -> None:
    if not _close(conn, unit):
        return
    conn.execute(
        text(
            "UPDATE units SET status = 'Pending', version = version + 1, attempt = attempt + 1 WHERE id = :id"
        ),
        {"id": unit},
    )
    add_events(conn, [Event(at=START, kind=Kind.REQUEUED, group_id=unit >> 20, unit_id=unit)])


def _close(conn: Connection, unit: int) -> bool:
    """False if it does not live any more. Locks as W4 says."""
    conn.execute(text("SELECT 1 FROM groups WHERE id = :id FOR NO KEY UPDATE"), {"id": unit >> 20})
    conn.execute(text("SELECT 1 FROM units WHERE id = :id FOR NO KEY UPDATE"), {"id": unit})
    return conn.execute(_CLOSE, {"id": unit, "start": START}).rowcount == 1


#: It held its places for a minute; whose ends have a cause is told apart by the unit's id.
_CLOSE = text("""
    WITH gone AS (DELETE FROM attempts WHERE unit_id = :id RETURNING *), noted AS (
      INSERT INTO uncharged_attempts (unit_id, attempt) SELECT unit_id, attempt FROM gone
    )
    INSERT INTO closed_attempts (unit_id, attempt, group_id, queue_id, generation, dispatches, places, usage,
      admitted_at, running_at, ended_at, closed_at, outcome, cause, gpu_seconds)
    SELECT unit_id, attempt, group_id, queue_id, generation, dispatches, places, usage, admitted_at,
      admitted_at, admitted_at + interval '1 minute', :start, 'Requeued',
      CASE unit_id / (1 << 20) % 3 WHEN 0 THEN 'Preempted' END, 60
    FROM gone
""")


def admission(
    unit: PendingUnit, *, pool_id: int, node_id: int, device: int | None, index: int | None = None
) -> Admission:
    """What a planner would say of one member with one GPU (or none) on one node."""
    member = unit.last_index if index is None else index
    devices = () if device is None else (device,)
    return Admission(
        unit_id=unit_id(unit.group_id, member),
        from_unit_id=unit.id,
        group_id=unit.group_id,
        queue_id=unit.queue_id,
        shape_id=unit.shape_id,
        pool_id=pool_id,
        index=member,
        attempt=unit.attempt,
        version=unit.version,
        places=(Place(member, 0, node_id, devices),),
        usage={MODEL: len(devices), CPUS: 1000, MEMORY: 1024},
        cpus_milli_by_node={node_id: 1000},
        memory_mib_by_node={node_id: 1024},
    )
