"""Rules of the architecture's section 13 that a World shows, and a plan."""

from __future__ import annotations

from collections import Counter

from service.admission.resident import World
from service.admission.world import RunningUnit
from service.domain.resources import CPUS, MEMORY
from simulation.replay.loop import Moment


def check(world: World, moment: Moment) -> None:
    """After the plan has been carried out."""
    check_held(world, moment)
    _everyone_is_explained(world, moment)


def check_held(world: World, moment: Moment) -> None:
    """The same, without what readers see."""
    _nobody_holds_less_than_its_minimum(world)
    _no_device_is_held_twice(world)
    _usage_is_what_units_hold(world)
    _evictions_have_claims(world, moment)


def _nobody_holds_less_than_its_minimum(world: World) -> None:
    for unit in world.running.values():
        shape = world.shapes[unit.shape_id]
        seats = Counter(place.role for place in unit.places)
        for position, role in enumerate(shape.roles):
            least, most = (role.min_count, role.count) if shape.is_gang else (1, 1)
            assert least <= seats[position] <= most, f"{unit.public_id} holds {dict(seats)}"
            gpus = role.requests.gpus
            assert all(len(place.devices) == gpus for place in unit.places if place.role == position)


def _no_device_is_held_twice(world: World) -> None:
    holders = Counter(
        (place.node_id, device)
        for unit in world.running.values()
        for place in unit.places
        for device in place.devices
    )
    assert all(count == 1 for count in holders.values()), holders.most_common(1)
    for node in world.configuration.nodes.values():
        cpus_milli, memory_mib = _taken(world, node.id)
        assert cpus_milli <= node.cpus_milli
        assert memory_mib <= node.memory_mib


def _taken(world: World, node_id: int) -> tuple[int, int]:
    requests = [
        world.shapes[unit.shape_id].roles[place.role].requests
        for unit in world.running.values()
        for place in unit.places
        if place.node_id == node_id
    ]
    return sum(each.cpus_milli for each in requests), sum(each.memory_mib for each in requests)


def _usage_is_what_units_hold(world: World) -> None:
    held: dict[int, Counter[str]] = {}
    for unit in world.running.values():
        held.setdefault(unit.queue_id, Counter()).update(_usage(world, unit))
    for queue_id, used in world.used.items():
        of_units = held.get(queue_id, Counter())
        assert {name: amount for name, amount in used.items() if amount} == dict(+of_units)


def _usage(world: World, unit: RunningUnit) -> Counter[str]:
    usage: Counter[str] = Counter()
    for place in unit.places:
        requests = world.shapes[unit.shape_id].roles[place.role].requests
        usage[CPUS] += requests.cpus_milli
        usage[MEMORY] += requests.memory_mib
        models = {device.index: device.model for device in world.configuration.nodes[place.node_id].devices}
        usage.update(models[device] for device in place.devices)
    return usage


def _evictions_have_claims(world: World, moment: Moment) -> None:
    """Rule 6: nobody is evicted, or gives up members, unless the claimant's whole set of places is claimed in
    the same plan."""
    claims = {claim.unit_id: claim for claim in moment.plan.claims_made}
    receipts = [eviction.receipt for eviction in moment.plan.evictions]
    receipts += [resize.receipt for resize in moment.plan.resizes if resize.receipt is not None]
    for receipt in receipts:
        claim = claims[receipt.claimant_id]
        shape = world.shapes[world.pending[receipt.claimant_id].shape_id]
        least = sum(role.min_count for role in shape.roles) if shape.is_gang else 1
        assert len(claim.places) >= least


def _everyone_is_explained(world: World, moment: Moment) -> None:
    """Rule 8: what waits, and could take part, has a reason."""
    for verdict in moment.plan.queues.values():
        for row in verdict.order:
            unit = world.pending.get(row.unit_id)
            if unit is not None and row.is_eligible:
                assert verdict.verdicts[row.verdict], f"{unit.public_id} waits without a reason"
