"""Handing claimed attempts to a launcher, and what follows from its answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography.fernet import InvalidToken

from service.domain.lifecycle.decisions import Evict
from service.domain.lifecycle.launches import (
    judge_cannot_execute,
    judge_launch_conflict,
    judge_launch_refusal,
)
from service.operations.dispatch import Claimed, Faults
from service.operations.secret_box import SecretBox
from service.settings import Settings
from service.store.attempts import LAUNCHED, LiveAttempt
from workers.launchers.base import GenerationKey, Launcher, LaunchResult, MemberLaunch, Outcome
from workers.reconcile import generation_of, member_key, policy_of, printable, unit_view

_NO_REASON = "no reason given"
_SEALED_OTHERWISE = "its secrets were sealed with another key than MUSTER_SECRET_KEY"


@dataclass(slots=True)
class Handed:
    """What the launcher answered: generations that it took, and what becomes of the others. `has_more`:
    others may wait, which are for the next call. `grown`: running ones that took the members which they
    got besides; `not_grown`: those that did not, and why."""

    taken: set[GenerationKey] = field(default_factory=set)
    refused: dict[GenerationKey, Evict] = field(default_factory=dict)
    grown: set[GenerationKey] = field(default_factory=set)
    not_grown: dict[GenerationKey, str] = field(default_factory=dict)
    has_more: bool = False

    def __bool__(self) -> bool:
        return bool(self.taken or self.refused or self.grown or self.not_grown)


class Pace:
    """How many attempts go to the launcher in one call. While it starts them nothing else is seen or
    recorded, so a call of a slow launcher is to take no longer than a tenth of a second."""

    _CALL_SECONDS, _MOST, _FIRST = 0.1, 1000, 32

    def __init__(self) -> None:
        self.most = self._FIRST

    @contextmanager
    def of(self, attempts: int) -> Iterator[None]:
        """Measure the call that starts so many."""
        began_at = time.monotonic()
        yield
        each = (time.monotonic() - began_at) / max(attempts, 1)
        fitting = int(self._CALL_SECONDS / each) if each else self._MOST
        self.most = max(1, min(fitting, 2 * self.most, self._MOST))


def hand_over(
    launcher: Launcher,
    claimed: Sequence[Claimed],
    *,
    box: SecretBox,
    node_names: Mapping[int, str],
    settings: Settings,
) -> Handed:
    """Launch every member of these attempts in one call."""
    handed = Handed()
    launches: list[MemberLaunch] = []
    for one in claimed:
        try:
            hidden = box.open(one.spec.sealed)
        except InvalidToken:
            if grows(one.attempt):
                handed.not_grown[generation_of(one.attempt)] = _SEALED_OTHERWISE
                continue
            handed.refused[generation_of(one.attempt)] = judge_launch_refusal(
                unit_view(one.attempt, Faults(), is_launched=False),
                policy_of(one.attempt, settings),
                message=_SEALED_OTHERWISE,
            )
            continue
        launches += launches_of(one, node_names=node_names, hidden=hidden)
    answers: dict[GenerationKey, list[LaunchResult]] = {}
    for result in launcher.launch(launches) if launches else ():
        answers.setdefault(result.key.of, []).append(result)
    for one in claimed:
        key = generation_of(one.attempt)
        if key not in answers:
            continue
        if grows(one.attempt):
            _judge_growth(handed, key, results=answers[key])
            continue
        verdict = judge_launch(one.attempt, answers[key], settings=settings, node_names=node_names)
        if verdict is None:
            handed.taken.add(key)
        else:
            handed.refused[key] = verdict
    return handed


def grows(attempt: LiveAttempt) -> bool:
    """Members were added to an attempt that runs, and are not launched yet."""
    return attempt.dispatch == LAUNCHED and bool(attempt.adding)


def _judge_growth(handed: Handed, key: GenerationKey, *, results: Sequence[LaunchResult]) -> None:
    """All that came together are taken, or none of them: the others of the group run on."""
    bad = next((result for result in results if result.outcome is not Outcome.STARTED), None)
    if bad is None:
        handed.grown.add(key)
    else:
        handed.not_grown[key] = printable(bad.message) or _NO_REASON


def launches_of(
    claimed: Claimed, *, node_names: Mapping[int, str], hidden: Sequence[Mapping[str, str]]
) -> list[MemberLaunch]:
    """Every member of a generation, or those that join one that runs, with its rank. `hidden`: secret
    variables by position of the role."""
    attempt, spec = claimed.attempt, claimed.spec.spec
    places = sorted(attempt.present, key=lambda place: place.member)
    coming = set(attempt.adding) if grows(attempt) else {place.member for place in places}
    seen_on: dict[int, int] = {}
    launches = []
    for rank, place in enumerate(places):
        local_rank = seen_on.get(place.node_id, 0)
        seen_on[place.node_id] = local_rank + 1
        if place.member not in coming:
            continue
        role = spec.roles[place.role]
        launches.append(
            MemberLaunch(
                key=member_key(attempt, place),
                group_name=attempt.group_name,
                role=role.name,
                node=node_names[place.node_id],
                devices=place.devices,
                cpus_milli=role.requests.cpus_milli,
                memory_mib=role.requests.memory_mib,
                command=role.command,
                workdir=role.workdir,
                image=role.image,
                env=role.env,
                secrets=hidden[place.role] if hidden else {},
                rank=rank,
                world_size=len(places),
                local_rank=local_rank,
                member_count=spec.member_count,
                claimed_at=claimed.claimed_at,
                revision=attempt.revision,
            )
        )
    return launches


def judge_launch(
    attempt: LiveAttempt,
    results: Sequence[LaunchResult],
    *,
    settings: Settings,
    node_names: Mapping[int, str],
) -> Evict | None:
    """What follows from the launcher's answers for one generation; None if every member was taken."""
    policy = policy_of(attempt, settings)
    nodes = {place.member: node_names[place.node_id] for place in attempt.places}
    by_outcome = {result.outcome: result for result in reversed(results)}
    bad = by_outcome.get(Outcome.CANNOT_EXECUTE)
    if bad is not None:
        return judge_cannot_execute(bad.key.member, nodes[bad.key.member], message=printable(bad.message))
    bad = by_outcome.get(Outcome.CONFLICT)
    if bad is not None:
        return judge_launch_conflict(policy, printable(bad.message) or _NO_REASON)
    bad = by_outcome.get(Outcome.REFUSED)
    if bad is not None:
        unit = unit_view(attempt, Faults(), is_launched=False)
        return judge_launch_refusal(unit, policy, message=printable(bad.message) or _NO_REASON)
    return None
