"""Submit: groups come to be, all of one request or none, and wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.errors import MusterError
from service.domain.group import GroupSpec
from service.domain.principal import Principal
from service.operations.configuration import Cluster, KnownConfiguration
from service.operations.learned_runtimes import KnownRuntimes
from service.operations.secret_box import SecretBox
from service.operations.submission import Draft, Outcome, Submission, Submitted
from service.operations.submit_after import add_dependencies, lock_named_groups
from service.operations.submit_keys import settle_keys, take_first
from service.points import reach
from service.store.dependencies import NamedGroup
from service.store.ground import Ground, read_ground
from service.store.groups import NewGroup, insert_submitted
from service.store.idempotency import KeyedGroups, KeyId, SubmitKey
from service.store.shapes import ensure_shapes
from service.store.specs import hidden_of
from service.store.usage_reads import OwnerKey

#: So long a transaction waits for a lock, and if others wait for it to be over.
_PATIENT, _BRIEF = "10s", "250ms"


def submit_groups(
    engine: Engine,
    specs: Sequence[GroupSpec],
    *,
    principal: Principal,
    now: datetime,
    box: SecretBox,
    configuration: KnownConfiguration,
    key: SubmitKey | None = None,
    is_batch: bool = False,
) -> Submitted:
    """One request in a transaction of its own. Raises what refuses it (see Outcome)."""
    asked = Submission(specs=specs, principal=principal, now=now, key=key, is_batch=is_batch)
    (outcome,) = commit_submissions(engine, [asked], box=box, configuration=configuration)
    if isinstance(outcome, MusterError):
        raise outcome
    return outcome


def commit_submissions(
    engine: Engine,
    submissions: Sequence[Submission],
    *,
    box: SecretBox,
    configuration: KnownConfiguration,
    is_patient: bool = True,
) -> list[Outcome]:
    """Requests in one transaction, as if they came one after the other: what refuses one changes nothing
    for the others. An error of the database is that of all. `is_patient`: locks are waited for long."""
    drafts = [Draft(submission) for submission in submissions]
    sound = [draft for draft in drafts if draft.comes_to_be]
    if sound:
        with engine.begin() as conn:
            ground = _look(conn, sound, lock_timeout=_PATIENT if is_patient else _BRIEF)
            _write(conn, sound, ground=ground, box=box, configuration=configuration)
            reach("api.groups-written")
        reach("api.groups-submitted")
    return [draft.outcome for draft in drafts]


def _write(
    conn: Connection,
    drafts: Sequence[Draft],
    *,
    ground: Ground,
    box: SecretBox,
    configuration: KnownConfiguration,
) -> None:
    # 1. The first request with a key has it, unless somebody else does.
    others = take_first(conn, drafts)
    # 2. Whom they wait for: none of these ends until the end of this.
    named = lock_named_groups(conn, drafts)
    # 3. Repetitions and refusals.
    cluster = configuration.at(ground.config_version, conn)
    _decide(drafts, ground=ground, cluster=cluster, named=named, others=others)
    settle_keys(conn, drafts, others=others)
    # 4. What comes to be.
    if made := [draft for draft in drafts if draft.comes_to_be]:
        _expect(conn, made, ground=ground, runtimes=configuration.runtimes)
        _make_groups(made, ground=ground, shape_ids=_shape_ids(conn, made, known=ground.shapes), box=box)
        insert_submitted(conn, [group for draft in made for group in draft.groups])
        # 5. Who waits for what has ended already.
        add_dependencies(conn, made, named=named)


def _look(conn: Connection, drafts: Sequence[Draft], *, lock_timeout: str) -> Ground:
    """One look at everything that they stand on."""
    return read_ground(
        conn,
        entries=sorted({entry for draft in drafts for entry in draft.entries()}),
        digests=sorted({digest for draft in drafts for digest in draft.digests}),
        groups=sum(len(draft.public_ids) for draft in drafts),
        lock_timeout=lock_timeout,
    )


def _decide(
    drafts: Sequence[Draft],
    *,
    ground: Ground,
    cluster: Cluster,
    named: Mapping[UUID, NamedGroup],
    others: Mapping[KeyId, KeyedGroups],
) -> None:
    """One after the other: a key stands for the first request with it that is not refused."""
    standing = dict(others)
    for draft in drafts:
        first = standing.get(draft.keyed.key.id) if draft.keyed else None
        if first is not None:
            draft.repeat(first)
            continue
        draft.check(ground, cluster, named=named)
        if draft.comes_to_be and draft.keyed is not None:
            standing[draft.keyed.key.id] = draft.keyed


def _shape_ids(conn: Connection, drafts: Sequence[Draft], *, known: Mapping[bytes, int]) -> dict[bytes, int]:
    """Also of those that nobody has asked for before: they are added."""
    missing = {
        digest: shape
        for draft in drafts
        for digest, shape in zip(draft.digests, draft.shapes, strict=True)
        if digest not in known
    }
    return {**known, **(ensure_shapes(conn, missing) if missing else {})}


def _expect(conn: Connection, drafts: Sequence[Draft], *, ground: Ground, runtimes: KnownRuntimes) -> None:
    keys = [_expectation_keys(draft, ground) for draft in drafts]
    now = max(draft.submission.now for draft in drafts)
    found = runtimes.expected_seconds(conn, {key for each in keys for key in each.values()}, now=now)
    for draft, by_queue in zip(drafts, keys, strict=True):
        draft.expected = {queue: found[key] for queue, key in by_queue.items()}


def _expectation_keys(draft: Draft, ground: Ground) -> dict[str, OwnerKey]:
    """By the queues that it names."""
    who = draft.submission.principal
    queues = {spec.queue for spec in draft.specs}
    return {queue: (ground.queues[draft.entry_of(queue)], who.tenant, who.user) for queue in queues}


def _make_groups(
    drafts: Sequence[Draft], *, ground: Ground, shape_ids: Mapping[bytes, int], box: SecretBox
) -> None:
    """Ids ascend in the order in which the groups were asked for."""
    ids = iter(ground.group_ids)
    for draft in drafts:
        asked = draft.submission
        draft.groups = tuple(
            NewGroup(
                id=next(ids),
                public_id=public_id,
                spec=draft.resolved(spec),
                queue_id=ground.queues[draft.entry_of(spec.queue)],
                shape_id=shape_ids[digest],
                tenant=asked.principal.tenant,
                owner=asked.principal.user,
                submitted_at=asked.now,
                sealed=box.seal(hidden_of(spec)),
                expected_seconds=draft.expected[spec.queue],
            )
            for public_id, spec, digest in zip(draft.public_ids, draft.specs, draft.digests, strict=True)
        )
