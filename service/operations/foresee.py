"""What the next cycle would do with a group that is not there: the real planner, on the part of the World
that such a group meets.

All that runs is in it, all that is kept for others, and of what waits a bounded number of those that come
first: to find these takes one look at all that waits, and the rest costs what the cluster costs. It is thrown
away afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from service.admission.cycle import plan_cycle
from service.admission.plan import Admission, Blocker, Plan
from service.admission.policy import Policy
from service.admission.resident import World
from service.admission.world import Changes, Configuration, PendingUnit
from service.domain.shape import Shape
from service.store.claims import read_claims
from service.store.contenders import read_contenders
from service.store.guard_pauses import read_guard_pauses
from service.store.past_use import read_past_use
from service.store.shapes import load_shapes
from service.store.world_rows import read_live_units

#: No row of the store has these: ids are given from below, and have so many bits in a World.
NEW_GROUP = (1 << 43) - 1
NEW_SHAPE = (1 << 29) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """`admissions` of the group's units; `blockers` of what would wait, with the `numbers` that they name;
    `victims`: public ids of groups that would give way to it; `due_at`: the date of its claim."""

    world: World
    admissions: tuple[Admission, ...]
    blockers: tuple[Blocker, ...]
    numbers: Mapping[str, int]
    victims: tuple[str, ...]
    due_at: datetime | None


def foresee(
    conn: Connection,
    row: PendingUnit,
    *,
    shape: Shape,
    configuration: Configuration,
    policy: Policy,
    now: datetime,
) -> Foreseen:
    """`row`: the group as it would wait, of NEW_GROUP and NEW_SHAPE. All is read in the open snapshot, which
    has this configuration."""
    world = _load_part(conn, row, shape=shape, configuration=configuration, policy=policy)
    plan = plan_cycle(world, now, policy=policy)
    claim = next((claim for claim in plan.claims_made if claim.unit_id == row.id), None)
    return Foreseen(
        world=world,
        admissions=tuple(each for each in plan.admissions if each.group_id == NEW_GROUP),
        blockers=_blockers(plan, row.queue_id),
        numbers=plan.numbers,
        victims=_victims(plan, world, row_id=row.id),
        due_at=None if claim is None else claim.due_at,
    )


def _load_part(
    conn: Connection, row: PendingUnit, *, shape: Shape, configuration: Configuration, policy: Policy
) -> World:
    pending = read_contenders(conn, queue_id=row.queue_id, priority=row.priority)
    running, half_life = read_live_units(conn), policy.half_life_seconds
    shape_ids = {unit.shape_id for units in (pending, running) for unit in units.values()}
    world = World.empty(half_life_seconds=half_life)
    world.apply(
        Changes(
            configuration=configuration,
            shapes={**load_shapes(conn, shape_ids), NEW_SHAPE: shape},
            pending={**pending, row.id: row},
            running=running,
            claims=read_claims(conn),
            pauses=read_guard_pauses(conn),
            past_use=read_past_use(conn, half_life) if half_life > 0 else (),
        )
    )
    return world


def _blockers(plan: Plan, queue_id: int) -> tuple[Blocker, ...]:
    """Empty if nothing of the group would wait."""
    queue = plan.queues[queue_id]
    verdict = next((each.verdict for each in queue.order if each.group_id == NEW_GROUP), None)
    return () if verdict is None else queue.verdicts[verdict]


def _victims(plan: Plan, world: World, *, row_id: int) -> tuple[str, ...]:
    """Groups that give way, as a whole or in part, each once."""
    units = [each.unit_id for each in plan.evictions if each.receipt.claimant_id == row_id]
    units += [each.unit_id for each in plan.resizes if each.receipt and each.receipt.claimant_id == row_id]
    return tuple(dict.fromkeys(world.running[unit].public_id for unit in units))
