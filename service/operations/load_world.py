"""Read what the World is made of: everything once, then only what changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection, text

from service.admission.world import Changes, Configuration, PendingUnit, RunningUnit
from service.domain.shape import Shape
from service.store.claims import read_claims
from service.store.feed import Snapshot, open_snapshot, read_changes, read_changes_within, read_position
from service.store.guard_pauses import read_guard_pauses
from service.store.past_use import read_past_use
from service.store.shapes import load_shapes
from service.store.world_rows import read_all_units, read_configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a World has been read, over one connection (W3). `configuration` is as it was read last;
    `shapes` are those seen so far;
    `half_life_seconds`: that of the ledger of usage, 0 if nothing of it is read."""

    snapshot: Snapshot
    configuration: Configuration
    shapes: dict[int, Shape]
    half_life_seconds: float = 0.0


def load_world(conn: Connection, *, half_life_seconds: float = 0.0) -> tuple[Changes, Position]:
    """Everything, of one instant: for an empty World of this half-life, which is the ledger's."""
    with conn.begin():
        open_snapshot(conn)
        # A full load reads whole tables; the connection is set up for the opposite.
        conn.execute(text("SET LOCAL enable_seqscan = on"))
        here = read_position(conn)
        configuration = read_configuration(conn)
        pending, running = read_all_units(conn)
        claims, pauses = read_claims(conn), read_guard_pauses(conn)
        past_use = read_past_use(conn, half_life_seconds) if half_life_seconds > 0 else ()
    shapes = _shapes_of(conn, pending, running=running, known={})
    changes = Changes(
        configuration=configuration,
        shapes=shapes,
        pending=pending,
        running=running,
        claims=claims,
        pauses=pauses,
        past_use=past_use,
    )
    position = Position(
        snapshot=here.snapshot,
        configuration=configuration,
        shapes=dict(shapes),
        half_life_seconds=half_life_seconds,
    )
    return changes, position


def load_changes(conn: Connection, position: Position) -> tuple[Changes, Position]:
    """What changed since `position`: the present states of the units that events name (W1, W2), and
    the configuration if its version has moved. All of one instant, most often in one round trip."""
    configuration, half_life = None, position.half_life_seconds
    now, (pending, running), charges = read_changes(conn, position.snapshot, half_life_seconds=half_life)
    if now.config_version != position.configuration.version:
        with conn.begin():
            open_snapshot(conn)
            now, (pending, running), charges = read_changes_within(
                conn, position.snapshot, half_life_seconds=half_life
            )
            configuration = read_configuration(conn, before=position.configuration)
    shapes = _shapes_of(conn, pending, running=running, known=position.shapes)
    position.shapes.update(shapes)
    changes = Changes(
        configuration=configuration,
        shapes=shapes,
        pending=pending,
        running=running,
        gone=now.unit_ids - pending.keys() - running.keys(),
        charges=charges,
    )
    read = configuration or position.configuration
    return changes, replace(position, snapshot=now.snapshot, configuration=read)


def _shapes_of(
    conn: Connection,
    pending: dict[int, PendingUnit],
    *,
    running: dict[int, RunningUnit],
    known: dict[int, Shape],
) -> dict[int, Shape]:
    """The shapes of these units; a shape never changes, so each is read once."""
    used = {unit.shape_id for unit in pending.values()} | {unit.shape_id for unit in running.values()}
    missing = used - known.keys()
    if not missing:
        return {shape_id: known[shape_id] for shape_id in used}
    # Nothing about a shape is of an instant.
    with conn.begin():
        read = load_shapes(conn, missing)
    return {shape_id: known.get(shape_id) or read[shape_id] for shape_id in used}
