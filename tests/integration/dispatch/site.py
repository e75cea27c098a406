"""A pool with a simulated launcher, its dispatcher, and groups that a leader has just admitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Engine, text
from uuid_utils.compat import uuid7

from service.clock import VirtualClock
from service.domain.group import GroupSpec, Recovery, Role
from service.domain.resources import Resources
from service.domain.shape import Scheduling
from service.domain.status import Cause, Status
from service.domain.unit import unit_id
from service.operations.evict import Evicted, evict_units
from service.operations.secret_box import SecretBox
from service.settings import Settings
from service.store.groups import NewGroup, insert_groups
from service.store.shapes import ensure_shapes, shape_digest
from service.store.specs import hidden_of
from tests.group_ids import new_group_ids
from workers.dispatch import Dispatcher
from workers.launchers.base import DeviceReport, MemberLaunch, NodeReport
from workers.launchers.simulated import SimulatedLauncher
from workers.launchers.simulated_cluster import SimulatedCluster

START = datetime(2030, 1, 1, tzinfo=UTC)
SECRET_KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

#: Where a member sits: its node and devices.
Seat = tuple[str, tuple[int, ...]]


def node(name: str, gpus: int = 8) -> NodeReport:
    return NodeReport(
        name=name,
        cpus_milli=16_000 * gpus,
        memory_mib=128 * 1024 * gpus,
        labels={},
        devices=tuple(DeviceReport(index=i, model="mx", memory_mib=80 * 1024) for i in range(gpus)),
    )


@dataclass(frozen=True)
class Unit:
    id: int
    group_id: int
    name: str


class Site:
    """Two nodes of eight GPUs, one pool, a clock that is moved by hand."""

    def __init__(self, engine: Engine, data: Path, *, start: datetime = START, **settings: Any) -> None:
        self.engine = engine
        self.clock = VirtualClock(start)
        self.settings = Settings(data=data, secret_key=SECRET_KEY, **settings)
        self.cluster = SimulatedCluster({"p1": [node("n1"), node("n2")]}, self.clock)
        self.rings = 0
        self._made: list[Dispatcher] = []
        self.dispatcher = self.make_dispatcher("d1")

    # ------------------------------------------------------------ processes
    def make_dispatcher(
        self, holder: str, *, wrap: Callable[[SimulatedLauncher], Any] = lambda launcher: launcher
    ) -> Dispatcher:
        made = Dispatcher(
            self.engine,
            wrap(SimulatedLauncher(self.cluster, "p1")),
            pool_name="p1",
            clock=self.clock,
            settings=self.settings,
            ring_leader=self._ring,
            holder=holder,
        )
        self._made.append(made)
        return made

    def restart(self) -> None:
        """The dispatcher and all its memory are made anew."""
        self.dispatcher.close()
        self.dispatcher = self.make_dispatcher("d2")

    def pass_at(self, seconds: float) -> None:
        """One pass of the dispatcher, so many seconds after the start."""
        self.clock.move_to(START + timedelta(seconds=seconds))
        self.dispatcher.pass_once()

    def close(self) -> None:
        for dispatcher in self._made:
            dispatcher.close()

    def _ring(self) -> None:
        self.rings += 1

    # ------------------------------------------------------------ groups
    def admit(
        self,
        name: str,
        seats: Sequence[Seat],
        *,
        index: int | None = None,
        command: tuple[str, ...] = ("train",),
        secrets: Mapping[str, str] | None = None,
        grace_seconds: int = 0,
        time_limit_seconds: int | None = None,
        start_timeout_seconds: int | None = None,
        **recovery: Any,
    ) -> Unit:
        """A gang that was admitted just now with these seats; with `index`, that member of an
        independent group of ten."""
        is_gang = index is None
        role = Role(
            name="worker",
            count=len(seats) if is_gang else 10,
            min_count=len(seats) if is_gang else 10,
            requests=Resources(gpus=len(seats[0][1]), cpus_milli=1000, memory_mib=1024),
            command=command,
            secrets=secrets or {},
        )
        spec = GroupSpec(
            name=name,
            roles=(role,),
            scheduling=Scheduling.GANG if is_gang else Scheduling.INDEPENDENT,
            grace_seconds=grace_seconds,
            time_limit_seconds=time_limit_seconds,
            start_timeout_seconds=start_timeout_seconds,
            recovery=Recovery(**{"backoff_seconds": 0, **recovery}),
        )
        group_id = self._submit(spec)
        unit = Unit(unit_id(group_id, index or 0), group_id, name)
        if index is not None:
            self._split(unit.group_id, index)
        self._admit(unit, spec, seats, first_member=index or 0)
        return unit

    def admit_again(
        self, unit: Unit, seats: Sequence[Seat], spec_of: Mapping[str, Any] | None = None
    ) -> None:
        """What waits again is admitted again."""
        self._admit(unit, None, seats, first_member=unit.id & 0xFFFFF)

    def cancel(self, unit: Unit) -> Evicted:
        with self.engine.begin() as conn:
            return evict_units(
                conn,
                [unit.id],
                target=Status.CANCELLED,
                cause=Cause.CANCELLED,
                message="cancelled by alice",
                now=self.clock.now(),
                actor="alice",
            )

    def _submit(self, spec: GroupSpec) -> int:
        shape = spec.shape()
        with self.engine.begin() as conn:
            shapes = ensure_shapes(conn, {shape_digest(shape): shape})
            (group_id,) = new_group_ids(conn, 1)
            insert_groups(
                conn,
                [
                    NewGroup(
                        id=group_id,
                        public_id=uuid7(),
                        spec=spec,
                        queue_id=1,
                        shape_id=shapes[shape_digest(shape)],
                        tenant="t",
                        owner="alice",
                        submitted_at=self.clock.now(),
                        sealed=SecretBox(SECRET_KEY).seal(hidden_of(spec)),
                    )
                ],
            )
        return group_id

    def _split(self, group_id: int, index: int) -> None:
        with self.engine.begin() as conn:
            conn.execute(
                text("UPDATE units SET first_index = :first WHERE group_id = :group"),
                {"first": index + 1, "group": group_id},
            )
            conn.execute(
                text(
                    "INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version,"
                    " is_held, restarts_used, refused_dispatches, failed_nodes)"
                    " VALUES (:id, :group, :index, :index, 'Pending', 1, 1, false, 0, 0, '{}')"
                ),
                {"id": unit_id(group_id, index), "group": group_id, "index": index},
            )

    def _admit(self, unit: Unit, spec: GroupSpec | None, seats: Sequence[Seat], *, first_member: int) -> None:
        now = self.clock.now()
        nodes = self.node_ids()
        places: list[Any] = [
            [first_member + number, 0, nodes[name], list(devices)]
            for number, (name, devices) in enumerate(seats)
        ]
        limit = spec.time_limit_seconds if spec else None
        start = spec.start_timeout_seconds if spec else None
        with self.engine.begin() as conn:
            conn.execute(
                text(
                    "UPDATE units SET status = 'Admitted', version = version + 1, admitted_at = :now,"
                    " backoff_until = NULL WHERE id = :id AND status = 'Pending'"
                ),
                {"id": unit.id, "now": now},
            )
            conn.execute(
                text(
                    "INSERT INTO attempts (unit_id, attempt, revision, generation, group_id, queue_id,"
                    " pool_id, places, usage, dispatch, dispatches, admitted_at, start_deadline_at,"
                    " time_limit_at) SELECT id, attempt, 1, 1, group_id, 1, (SELECT id FROM pools),"
                    " :places, :usage, 'Waiting', 0, :now, :start, :limit FROM units WHERE id = :id"
                ),
                {
                    "id": unit.id,
                    "places": Jsonb(places),
                    "usage": Jsonb({"mx": sum(len(devices) for _, devices in seats)}),
                    "now": now,
                    "start": None if start is None else now + timedelta(seconds=start),
                    "limit": None if limit is None else now + timedelta(seconds=limit),
                },
            )
            for _, _, node_id, devices in places:
                for device in devices:
                    conn.execute(
                        text("INSERT INTO held_devices VALUES (:node, :device, :unit)"),
                        {"node": node_id, "device": device, "unit": unit.id},
                    )

    # ------------------------------------------------------------ what is there
    def rows(self, statement: str, **values: Any) -> list[Any]:
        with self.engine.connect() as conn:
            return list(conn.execute(text(statement), values))

    def node_ids(self) -> dict[str, int]:
        return {row.name: row.id for row in self.rows("SELECT id, name FROM nodes")}

    def unit(self, unit: Unit) -> Any:
        return self.rows("SELECT * FROM units WHERE id = :id", id=unit.id)[0]

    def attempt(self, unit: Unit) -> Any:
        found = self.rows("SELECT * FROM attempts WHERE unit_id = :id", id=unit.id)
        return found[0] if found else None

    def status(self, unit: Unit) -> str:
        return str(self.unit(unit).status)

    def held(self, unit: Unit | None = None) -> int:
        return int(
            self.rows(
                "SELECT count(*) AS n FROM held_devices WHERE CAST(:id AS bigint) IS NULL OR unit_id = :id",
                id=None if unit is None else unit.id,
            )[0].n
        )

    def events(self, unit: Unit) -> list[str]:
        return [
            row.kind
            for row in self.rows("SELECT kind FROM events WHERE group_id = :id ORDER BY id", id=unit.group_id)
        ]

    def config_version(self) -> int:
        return int(self.rows("SELECT version FROM config")[0].version)

    def live(self, unit: Unit) -> int:
        return len(self.cluster.live_members(unit.name))

    def launched(self, unit: Unit) -> int:
        return self.cluster.records.launched_members(unit.name)

    def sent(self, unit: Unit) -> list[MemberLaunch]:
        return [one.launch for one in self.cluster.records.sent if one.launch.group_name == unit.name]


@contextmanager
def registered_site(engine: Engine, data: Path) -> Iterator[Site]:
    """A site whose dispatcher has registered its nodes; it is closed whatever the test does."""
    site = Site(engine, data)
    try:
        site.pass_at(0)
        yield site
    finally:
        site.close()
