"""Hold and release: what waits of a held group is not admitted, what runs of it goes on."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.errors import Conflict
from service.domain.events import Event, Kind
from service.domain.principal import Principal
from service.operations.read_groups import get_visible_group
from service.operations.transactions import in_transaction
from service.store.events import add_events
from service.store.waiting_units import hold_units, lock_group_units, release_units


def hold_group(engine: Engine, public_id: UUID, *, principal: Principal, now: datetime) -> None:
    """Raises NotFound, and Conflict if the group has ended."""
    _set_held(engine, public_id, is_held=True, principal=principal, now=now)


def release_group(engine: Engine, public_id: UUID, *, principal: Principal, now: datetime) -> None:
    """Raises NotFound, and Conflict if the group has ended."""
    _set_held(engine, public_id, is_held=False, principal=principal, now=now)


def _set_held(engine: Engine, public_id: UUID, *, is_held: bool, principal: Principal, now: datetime) -> None:
    def work(conn: Connection) -> None:
        group = get_visible_group(conn, public_id, principal=principal)
        units = lock_group_units(conn, group.id)
        if not units:
            raise Conflict("The group has ended.")
        changing = [unit for unit in units if unit.is_held is not is_held]
        if is_held:
            hold_units(conn, changing, message=f"held by {principal.user}", now=now)
        else:
            release_units(conn, changing, now=now)
        add_events(
            conn,
            (
                Event(
                    at=now,
                    kind=Kind.HELD if is_held else Kind.RELEASED,
                    actor=principal.user,
                    group_id=unit.group_id,
                    unit_id=unit.id,
                    attempt=unit.attempt,
                )
                for unit in changing
            ),
        )

    in_transaction(engine, work)
