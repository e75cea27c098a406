"""What one round of a dispatcher concludes about live attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from service.domain.lifecycle.decisions import Succeed
from service.domain.lifecycle.facts import MemberView, first_failed
from service.domain.lifecycle.losses import judge_survivors
from service.domain.lifecycle.rules import decide
from service.domain.status import Status
from service.operations.dispatch import PoolFence
from service.operations.observe import Closed, PassResult
from service.operations.pool_state import NodeBook
from service.operations.secret_box import SecretBox
from service.settings import Settings
from service.store.attempts import LAUNCHED, WAITING, LiveAttempt
from service.store.member_ends import MemberEnd, load_member_ends
from service.store.resizes import GONE, REFUSED
from service.store.resizes import LAUNCHED as LAUNCHED_STEP
from workers.launchers.base import CloseResult, GenerationKey, MemberKey
from workers.launching import Handed
from workers.log_tails import read_tails
from workers.reconcile import (
    Sightings,
    dropped_members,
    ends_of,
    generation_of,
    is_stopping,
    last_end,
    live_members,
    member_views,
    policy_of,
    resize_step,
    unit_view,
)


@dataclass(slots=True)
class Stops:
    """Members that should be told to stop, by their generation; and what may be closed, with the
    success that it closes with, if any. `drop`: running ones whose surplus members may be closed.
    `is_killing`: some of that still lives."""

    tell: list[tuple[LiveAttempt, list[MemberKey]]] = field(default_factory=list)
    close: dict[GenerationKey, tuple[LiveAttempt, Succeed | None]] = field(default_factory=dict)
    drop: list[LiveAttempt] = field(default_factory=list)
    is_killing: bool = False

    def tell_by_grace(self, now: datetime) -> dict[float, list[MemberKey]]:
        """Members by the seconds that are left of their grace."""
        by_grace: dict[float, list[MemberKey]] = {}
        for attempt, members in self.tell:
            kill_at = attempt.drop_kill_at if attempt.dropping else attempt.kill_at
            left = max(0.0, ((kill_at or now) - now).total_seconds())
            by_grace.setdefault(left, []).extend(members)
        return by_grace


@dataclass(slots=True, kw_only=True)
class Judge:
    """Collects in `result` what is to be recorded. `look_at` first, then `conclude` with what the
    launcher's `close` answered. `short_units`: launched whole, but the launcher does not know every
    member any more. `unclosed_units`: ended well, but not closed yet; nobody will ring for them."""

    fence: PoolFence
    book: NodeBook
    box: SecretBox
    settings: Settings
    sightings: Sightings
    handed: Handed
    short_units: Collection[int]
    now: datetime
    result: PassResult = field(default_factory=PassResult)
    known_ends: set[tuple[int, int, int, int]] = field(default_factory=set)
    unclosed_units: set[int] = field(default_factory=set)

    def look_at(self, attempts: Sequence[LiveAttempt]) -> Stops:
        """What happens to each of these attempts, and what has to be stopped or closed for it."""
        self.result.node_names = self.book.names
        stops = Stops()
        undecided = []
        for attempt in attempts:
            self._add_ends(attempt)
            key = generation_of(attempt)
            if key in self.handed.taken:
                self.result.launched.append(attempt.key)
            if is_stopping(attempt):
                self._stop(attempt, stops)
            elif key in self.handed.refused:
                self.result.decided.append((attempt, self.handed.refused[key]))
            else:
                self._resize(attempt, stops)
                undecided.append(attempt)
        for attempt, views in self._with_tails(self._views(undecided)):
            self._decide(attempt, views, stops=stops)
        return stops

    def conclude(self, answers: Iterable[CloseResult], stops: Stops) -> None:
        """X1: what is closed is released, or starts again in place. What survives SIGKILL for too long
        is given up, and its devices are lost (X5)."""
        for answer in answers:
            attempt, success = stops.close[answer.key]
            self._add_ends(attempt)
            if _is_closed(answer):
                self._closed(attempt, success)
            elif not self._is_given_up(attempt, success):
                if success is not None:
                    self.unclosed_units.add(attempt.unit_id)
            elif attempt.status is Status.RECOVERING and success is None:
                leave = judge_survivors(policy_of(attempt, self.settings))
                self.result.decided.append((attempt, leave))
            else:
                self._closed(attempt, success, survivors=_own_survivors(answer))

    # ------------------------------------------------------------ one attempt
    def _add_ends(self, attempt: LiveAttempt) -> None:
        for end in ends_of(attempt, self.sightings.news_of(attempt), now=self.now):
            if end.key not in self.known_ends:
                self.known_ends.add(end.key)
                self.result.ends.append(end)

    def _stop(self, attempt: LiveAttempt, stops: Stops) -> None:
        if attempt.dispatch == WAITING:
            # Nobody claimed it, so there is nothing to close: compare-and-set does (X1).
            self._closed(attempt, None)
            return
        living = live_members(attempt, self.sightings.of(attempt))
        if not living or attempt.kill_at is None or attempt.kill_at <= self.now:
            stops.close[generation_of(attempt)] = (attempt, None)
            stops.is_killing |= bool(living)
        else:
            stops.tell.append((attempt, living))

    def _resize(self, attempt: LiveAttempt, stops: Stops) -> None:
        """What was added is launched or refused; what is given up is told to stop, and closed when it has
        stopped or its grace is over (X1)."""
        key = generation_of(attempt)
        if key in self.handed.grown:
            self.result.resized.append(resize_step(attempt, LAUNCHED_STEP))
        elif key in self.handed.not_grown:
            step = resize_step(attempt, REFUSED, message=self.handed.not_grown[key])
            self.result.resized.append(step)
        elif attempt.dropping:
            leaving = dropped_members(attempt, self.sightings.of(attempt))
            if leaving and attempt.drop_kill_at is not None and attempt.drop_kill_at > self.now:
                stops.tell.append((attempt, leaving))
            else:
                stops.drop.append(attempt)
                stops.is_killing |= bool(leaving)

    def conclude_drops(self, gone: Iterable[LiveAttempt]) -> None:
        """The members that these give up are closed: their places are free."""
        self.result.resized.extend(resize_step(attempt, GONE) for attempt in gone)

    def _decide(self, attempt: LiveAttempt, views: Sequence[MemberView], *, stops: Stops) -> None:
        decision = decide(
            unit_view(attempt, self.book.faults, is_launched=self._is_launched(attempt)),
            policy_of(attempt, self.settings),
            members=views,
            now=self.now,
        )
        if isinstance(decision, Succeed):
            stops.close[generation_of(attempt)] = (attempt, decision)
        elif decision is not None:
            self.result.decided.append((attempt, decision))

    def _is_launched(self, attempt: LiveAttempt) -> bool:
        return attempt.dispatch == LAUNCHED or generation_of(attempt) in self.handed.taken

    def _closed(
        self, attempt: LiveAttempt, success: Succeed | None, *, survivors: Sequence[MemberKey] = ()
    ) -> None:
        left = {member.member for member in survivors}
        self.result.closed.append(
            Closed(
                attempt=attempt,
                success=success,
                ended_at=last_end(attempt, self.sightings.of(attempt)),
                lost_devices=tuple(
                    (place.node_id, device)
                    for place in attempt.places
                    if place.member in left
                    for device in place.devices
                ),
            )
        )

    def _is_given_up(self, attempt: LiveAttempt, success: Succeed | None) -> bool:
        killed_at = attempt.kill_at if success is None else success.ended_at
        patience = timedelta(seconds=self.settings.kill_patience_seconds)
        return killed_at is not None and killed_at + patience <= self.now

    # ------------------------------------------------------------ what is read besides
    def _views(self, attempts: Sequence[LiveAttempt]) -> list[tuple[LiveAttempt, list[MemberView]]]:
        recorded = self._recorded_ends(attempts)
        return [
            (
                attempt,
                member_views(
                    attempt,
                    self.sightings.of(attempt),
                    node_names=self.book.names,
                    recorded=recorded.get(attempt.unit_id, {}),
                    down_nodes=self.book.faults.down_nodes,
                    is_complete=attempt.unit_id in self.short_units and attempt.dispatch == LAUNCHED,
                ),
            )
            for attempt in attempts
        ]

    def _recorded_ends(self, attempts: Sequence[LiveAttempt]) -> dict[int, dict[int, MemberEnd]]:
        """Ends in the books of members that the launcher does not name, by unit and member."""
        short = [attempt.key for attempt in attempts if attempt.unit_id in self.short_units]
        if not short:
            return {}
        ends: dict[int, dict[int, MemberEnd]] = {}
        with self.fence.conn.begin():
            for end in load_member_ends(self.fence.conn, short):
                ends.setdefault(end.unit_id, {})[end.member] = end
        return ends

    def _with_tails(
        self, seen: Sequence[tuple[LiveAttempt, list[MemberView]]]
    ) -> list[tuple[LiveAttempt, list[MemberView]]]:
        """Of each unit the member that failed first, with the last lines of its log: they go into the
        reason."""
        first = {
            attempt: first_failed(failed)
            for attempt, views in seen
            if (failed := [view for view in views if view.has_failed])
        }
        if not first:
            return list(seen)
        tails = read_tails(
            self.fence,
            [(attempt, view.member) for attempt, view in first.items()],
            box=self.box,
            settings=self.settings,
        )
        return [
            (
                attempt,
                [
                    replace(view, log_tail=tails.get(attempt.unit_id)) if view is first.get(attempt) else view
                    for view in views
                ],
            )
            for attempt, views in seen
        ]


def _own_survivors(answer: CloseResult) -> list[MemberKey]:
    """Those of the generation itself. What is left of an earlier attempt was given up when that one
    ended, and its devices are lost already (X5)."""
    return [member for member in answer.survivors if member.of == answer.key]


def _is_closed(answer: CloseResult) -> bool:
    return answer.is_closed or (bool(answer.survivors) and not _own_survivors(answer))
