"""Read what the World is made of: everything once, then only what changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection, text

from service.admission.world import Changes, PendingUnit, RunningUnit
from service.domain.shape import Shape
from service.store.claims import read_claims
from service.store.feed import Snapshot, open_snapshot, read_changes, read_changes_within, read_position
from service.store.shapes import load_shapes
from service.store.world_rows import read_all_units, read_configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a World has been read, over one connection (W3). `shapes` are those seen so far."""

    snapshot: Snapshot
    config_version: int
    shapes: dict[int, Shape]


def load_world(conn: Connection) -> tuple[Changes, Position]:
    """Everything, of one instant: for an empty World."""
    with conn.begin():
        open_snapshot(conn)
        # A full load reads whole tables; the connection is set up for the opposite.
        conn.execute(text("SET LOCAL enable_seqscan = on"))
        here = read_position(conn)
        configuration = read_configuration(conn)
        pending, running = read_all_units(conn)
        claims = read_claims(conn)
    shapes = _shapes_of(conn, pending, running=running, known={})
    changes = Changes(
        configuration=configuration, shapes=shapes, pending=pending, running=running, claims=claims
    )
    position = Position(snapshot=here.snapshot, config_version=here.config_version, shapes=dict(shapes))
    return changes, position


def load_changes(conn: Connection, position: Position) -> tuple[Changes, Position]:
    """What changed since `position`: the present states of the units that events name (W1, W2), and
    the configuration if its version has moved. All of one instant, most often in one round trip."""
    configuration = None
    now, (pending, running) = read_changes(conn, position.snapshot)
    if now.config_version != position.config_version:
        with conn.begin():
            open_snapshot(conn)
            now, (pending, running) = read_changes_within(conn, position.snapshot)
            configuration = read_configuration(conn)
    shapes = _shapes_of(conn, pending, running=running, known=position.shapes)
    position.shapes.update(shapes)
    changes = Changes(
        configuration=configuration,
        shapes=shapes,
        pending=pending,
        running=running,
        gone=now.unit_ids - pending.keys() - running.keys(),
    )
    return changes, replace(position, snapshot=now.snapshot, config_version=now.config_version)


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
