"""Between the books and a launcher: what was seen, in the words of the lifecycle.

Nothing here talks to a store or a launcher.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from service.domain.group import OnMemberLoss
from service.domain.lifecycle.facts import MemberView, Phase, Policy, UnitView
from service.domain.node import Place
from service.domain.status import Status
from service.operations.dispatch import Faults
from service.operations.register_nodes import ReportedNode, with_host
from service.settings import Settings
from service.store.attempts import CLOSING, LiveAttempt
from service.store.inventory_rows import DeviceRow, NodeValues
from service.store.member_ends import MemberEnd
from service.store.places import pack_places
from service.store.resizes import GONE, ResizeStep
from workers.launchers.base import (
    GenerationKey,
    MemberKey,
    MemberObservation,
    MemberState,
    NodeReport,
)

_PHASE = {
    MemberState.STARTING: Phase.STARTING,
    MemberState.READY: Phase.READY,
    MemberState.ENDED: Phase.ENDED,
    MemberState.LOST: Phase.LOST,
}

_VANISHED = "the launcher does not know it any more"


def generation_of(attempt: LiveAttempt) -> GenerationKey:
    return GenerationKey(*attempt.key)


def member_key(attempt: LiveAttempt, place: Place) -> MemberKey:
    return MemberKey(*attempt.key, place.member)


# ---------------------------------------------------------------- observing
class Sightings:
    """What a launcher says, and what of that is news: not what was acted on before."""

    def __init__(self) -> None:
        self._seen: dict[MemberKey, MemberObservation] = {}
        self._settled: dict[MemberKey, MemberObservation] = {}
        self._news: dict[GenerationKey, list[MemberObservation]] = {}

    def look(self, observations: Sequence[MemberObservation]) -> None:
        """Take over what the launcher says now."""
        self._seen = {}
        self._news = {}
        for seen in observations:
            self._seen[seen.key] = seen
            known = self._settled.get(seen.key)
            if known is not seen and known != seen:
                self._news.setdefault(seen.key.of, []).append(seen)

    def look_again(self, observations: Sequence[MemberObservation], *, unit_ids: Collection[int]) -> None:
        """Take over what the launcher says now of these units. What it says of the others is for the
        next look, because they have been judged by what was seen before."""
        others = [seen for seen in self._seen.values() if seen.key.unit_id not in unit_ids]
        self.look([*others, *(seen for seen in observations if seen.key.unit_id in unit_ids)])

    def of(self, attempt: LiveAttempt) -> dict[int, MemberObservation]:
        """Members of the attempt's present generation, as far as the launcher names them."""
        keys = [member_key(attempt, place) for place in attempt.places]
        return {key.member: self._seen[key] for key in keys if key in self._seen}

    def news_of(self, attempt: LiveAttempt) -> list[MemberObservation]:
        return self._news.get(generation_of(attempt), [])

    def by_generation(self) -> dict[GenerationKey, list[MemberObservation]]:
        """Everything that the launcher names."""
        found: dict[GenerationKey, list[MemberObservation]] = {}
        for seen in self._seen.values():
            found.setdefault(seen.key.of, []).append(seen)
        return found

    @property
    def changed_units(self) -> set[int]:
        return {generation.unit_id for generation in self._news}

    def settle(self, judged: Collection[int], *, but_not: frozenset[int] = frozenset()) -> bool:
        """What was said of the units in `judged` is in the books, except for those in `but_not`. True if
        news are left."""
        left = [
            seen
            for generation, news in self._news.items()
            if generation.unit_id not in judged or generation.unit_id in but_not
            for seen in news
        ]
        self._settled = dict(self._seen) if left else self._seen
        for seen in left:
            del self._settled[seen.key]
        return bool(left)


def has_ended(seen: MemberObservation) -> bool:
    return seen.state in (MemberState.ENDED, MemberState.LOST)


def ends_of(attempt: LiveAttempt, seen: Iterable[MemberObservation], *, now: datetime) -> list[MemberEnd]:
    """Ends and losses of the present generation's members, with the launcher's instants. What it gives up
    has no end that counts."""
    started = {place.member for place in attempt.started}
    return [
        MemberEnd(
            unit_id=attempt.unit_id,
            attempt=attempt.attempt,
            generation=attempt.generation,
            member=one.key.member,
            exit_code=one.exit_code if one.state is MemberState.ENDED else None,
            ended_at=one.ended_at or now,
            detail=printable(one.detail),
        )
        for one in seen
        if has_ended(one) and one.key.member in started
    ]


def member_views(
    attempt: LiveAttempt,
    seen: Mapping[int, MemberObservation],
    *,
    node_names: Mapping[int, str],
    recorded: Mapping[int, MemberEnd],
    down_nodes: Collection[int],
    is_complete: bool,
) -> list[MemberView]:
    """One view for each member that it lives by. `recorded`: ends that are in the books though the launcher
    keeps them no more. `is_complete`: the launcher had them all, so one that it does not name is lost."""
    return [
        _view(
            place,
            seen.get(place.member),
            node=node_names[place.node_id],
            recorded=recorded.get(place.member),
            is_node_down=place.node_id in down_nodes,
            is_complete=is_complete,
        )
        for place in sorted(attempt.started, key=lambda place: place.member)
    ]


def _view(
    place: Place,
    seen: MemberObservation | None,
    *,
    node: str,
    recorded: MemberEnd | None,
    is_node_down: bool,
    is_complete: bool,
) -> MemberView:
    if seen is not None:
        return MemberView(
            member=place.member,
            node_id=place.node_id,
            node=node,
            phase=_PHASE[seen.state],
            exit_code=seen.exit_code,
            ended_at=seen.ended_at,
            was_told_to_stop=seen.was_told_to_stop,
            cannot_execute=seen.cannot_execute,
            detail=printable(seen.detail),
            is_node_lost=is_node_down or seen.is_node_lost,
        )
    if recorded is not None:
        return MemberView(
            member=place.member,
            node_id=place.node_id,
            node=node,
            phase=Phase.LOST if recorded.exit_code is None else Phase.ENDED,
            exit_code=recorded.exit_code,
            ended_at=recorded.ended_at,
            detail=recorded.detail,
            is_node_lost=is_node_down,
        )
    return MemberView(
        member=place.member,
        node_id=place.node_id,
        node=node,
        phase=Phase.LOST if is_complete else Phase.UNKNOWN,
        detail=_VANISHED if is_complete else None,
        is_node_lost=is_node_down,
    )


# ---------------------------------------------------------------- deciding
def policy_of(attempt: LiveAttempt, settings: Settings) -> Policy:
    return Policy(
        on_member_loss=OnMemberLoss(attempt.on_member_loss),
        max_restarts=attempt.max_restarts,
        backoff_seconds=attempt.backoff_seconds,
        seat_timeout_seconds=attempt.seat_timeout_seconds,
        max_dispatches=settings.max_dispatches,
        dispatch_backoff_seconds=settings.dispatch_backoff_seconds,
    )


def unit_view(attempt: LiveAttempt, faults: Faults, *, is_launched: bool) -> UnitView:
    return UnitView(
        status=attempt.status,
        is_launched=is_launched,
        restarts_used=attempt.restarts_used,
        refused_dispatches=attempt.refused_dispatches,
        failed_nodes=attempt.failed_nodes,
        infrastructure_losses=attempt.infrastructure_losses,
        start_deadline_at=attempt.start_deadline_at,
        time_limit_at=attempt.time_limit_at,
        seat_deadline_at=attempt.seat_deadline_at,
        loss_cause=attempt.evict_cause,
        loss_message=attempt.evict_message,
        down_nodes=faults.nodes_of(attempt),
    )


def is_stopping(attempt: LiveAttempt) -> bool:
    """Its members are being ended: by an eviction, or to start again in place."""
    return attempt.status is Status.EVICTING or (
        attempt.status is Status.RECOVERING and attempt.dispatch == CLOSING
    )


def live_members(attempt: LiveAttempt, seen: Mapping[int, MemberObservation]) -> list[MemberKey]:
    """Members of the present generation that live, as far as the launcher knows."""
    return [
        seen[place.member].key
        for place in attempt.places
        if place.member in seen and not has_ended(seen[place.member])
    ]


def dropped_members(attempt: LiveAttempt, seen: Mapping[int, MemberObservation]) -> list[MemberKey]:
    """Members that it gives up and that live, as far as the launcher knows."""
    living = live_members(attempt, seen)
    return [key for key in living if key.member in attempt.dropping]


def resize_step(attempt: LiveAttempt, step: str, *, message: str | None = None) -> ResizeStep:
    return ResizeStep(
        unit_id=attempt.unit_id,
        attempt=attempt.attempt,
        revision=attempt.revision,
        step=step,
        message=message,
        places=pack_places(attempt.present) if step == GONE else None,
    )


def last_end(attempt: LiveAttempt, seen: Mapping[int, MemberObservation]) -> datetime | None:
    """When the last member ended, if every one's end is known."""
    instants = [one.ended_at for one in seen.values() if has_ended(one) and one.ended_at is not None]
    return max(instants) if instants and len(instants) == len(attempt.places) else None


def printable(said: str | None) -> str | None:
    """Text from outside as PostgreSQL takes it."""
    return None if said is None else said.replace("\0", "\N{REPLACEMENT CHARACTER}")


# ---------------------------------------------------------------- nodes
def reported_node(report: NodeReport) -> ReportedNode:
    """A launcher's report in the words of the books."""
    return ReportedNode(
        values=NodeValues(
            name=report.name,
            cpus_milli=report.cpus_milli,
            memory_mib=report.memory_mib,
            labels=with_host(report.labels, report.name),
            is_ready=report.is_ready,
            boot_id=report.boot_id,
        ),
        devices=tuple(
            DeviceRow(
                device=device.index,
                model=device.model,
                memory_mib=device.memory_mib,
                uuid=device.uuid,
                is_healthy=device.is_healthy,
            )
            for device in report.devices
        ),
    )
