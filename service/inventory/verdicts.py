"""What a cycle published for readers: each queue's order and verdicts, and the numbers they share.

A queue's value changes only when its order or a code changes (P2), and an older cycle never
overwrites a newer one (P1). The order is packed: three flat arrays and one byte per entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from datetime import datetime
from importlib.resources import files
from typing import NamedTuple

import msgspec
import redis

from service.admission.packed_order import PackedOrder, Waiting, unpacked
from service.admission.plan import Blocker, QueueVerdict
from service.inventory import keys

#: Parts of a scope that come and go with nodes, while the blocker stays the same.
_PASSING = frozenset({"nodes", "unavailable"})


class PublishedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's order as of (epoch, cycle), with the index of each waiting row's verdict. `growing`: groups
    that run and wait for more members, with the index of theirs. `guard_seconds`: the guard that the leader
    goes by; None where an earlier release has published."""

    queue_id: int
    epoch: int
    cycle: int
    at: datetime
    group_ids: bytes
    unit_ids: bytes
    verdict_of: bytes
    is_eligible: bytes
    growing: tuple[tuple[int, int], ...] = ()
    guard_seconds: float | None = None

    def order(self) -> list[Waiting]:
        """The waiting rows in the order in which the next cycle considers them."""
        return list(
            PackedOrder(
                group_ids=self.group_ids,
                unit_ids=self.unit_ids,
                verdict_of=self.verdict_of,
                is_eligible=self.is_eligible,
            )
        )

    def verdict_numbers(self) -> array[int]:
        """Index of the verdict of each waiting row, in their order."""
        return unpacked(self.verdict_of)

    def verdict_for(self, group_id: int) -> int | None:
        """Index of the verdict of the group's first waiting row, or of a group that waits to grow; None
        if neither was seen."""
        for growing_id, number in self.growing:
            if growing_id == group_id:
                return number
        groups = unpacked(self.group_ids)
        try:
            return unpacked(self.verdict_of)[groups.index(group_id)]
        except ValueError:
            return None

    def position_of(self, group_id: int) -> int | None:
        """1 for the first group of the queue; None if the group is not waiting or not eligible."""
        ahead: set[int] = set()
        for group, eligible in zip(unpacked(self.group_ids), self.is_eligible, strict=True):
            if group == group_id and eligible:
                return len(ahead) + 1
            if eligible:
                ahead.add(group)
        return None

    def positions(self) -> dict[int, int]:
        """Position of every group that has one."""
        positions: dict[int, int] = {}
        for group, eligible in zip(unpacked(self.group_ids), self.is_eligible, strict=True):
            if eligible:
                positions.setdefault(group, len(positions) + 1)
        return positions


class PublishedQueue(PublishedOrder, frozen=True, kw_only=True):
    """A queue's order and verdicts. `since[i][j]`: from when blocker j of verdict i has stood in this
    queue; a unit was subject to it since then or since it came, whichever is later."""

    verdicts: tuple[tuple[Blocker, ...], ...]
    since: tuple[tuple[datetime, ...], ...]


class Publisher:
    """The leader's side: knows what it published last and writes only what differs."""

    def __init__(self, client: redis.Redis, *, guard_seconds: float | None = None) -> None:
        self._client = client
        self._guard_seconds = guard_seconds
        source = files("service.inventory").joinpath("lua", "publish.lua").read_text()
        self._publish = client.register_script(source)
        self._queues: dict[int, _Known] = {}
        self._numbers: Mapping[str, int] | None = None
        self._left: tuple[int, int] | None = None

    def is_as_left(self, published: tuple[int, int] | None) -> bool:
        """Whether the newest publication, (epoch, cycle), is still this one's, or there was none yet: a
        server that was emptied, or has lost its last second, shows readers something else."""
        return self._left is None or published == self._left

    def forget(self) -> None:
        """Publish everything at the next call: after a takeover or a rebuild (L3, R4). Since when
        blockers have stood is still true."""
        self._queues = {queue_id: _Known(since=known.since) for queue_id, known in self._queues.items()}
        self._numbers = None

    def publish(
        self,
        queues: Mapping[int, QueueVerdict],
        numbers: Mapping[str, int],
        *,
        epoch: int,
        cycle: int,
        at: datetime,
    ) -> int | None:
        """Replace what differs. `queues` names every queue that exists, also one where nothing
        waits. Returns how many values were replaced, None when a newer cycle has published."""
        self._learn(queues.keys() - self._queues.keys())
        replaced: dict[str, bytes] = {}
        known: dict[int, _Known] = {}
        for queue_id, verdict in queues.items():
            now = known[queue_id] = _compare(verdict, self._queues[queue_id], at=at)
            if now is not self._queues[queue_id]:
                value = _published(
                    verdict, now, epoch=epoch, cycle=cycle, at=at, guard_seconds=self._guard_seconds
                )
                replaced[keys.verdict(queue_id)] = msgspec.msgpack.encode(value)
        replaced |= {keys.verdict(queue_id): b"" for queue_id in self._queues.keys() - queues.keys()}
        if numbers != self._numbers:
            replaced[keys.VERDICT_NUMBERS] = msgspec.msgpack.encode(dict(sorted(numbers.items())))
        if replaced:
            if not self._publish(
                keys=[keys.VERDICT_FENCE, *replaced], args=[epoch, cycle, *replaced.values()]
            ):
                return None
            self._left = epoch, cycle
        self._queues, self._numbers = known, numbers
        return len(replaced)

    def _learn(self, queue_ids: Collection[int]) -> None:
        """Since when the blockers of these queues have stood, as the leader before this one published
        it: a takeover does not make a wait any shorter."""
        names = [keys.verdict(queue_id) for queue_id in queue_ids]
        values = self._client.mget(names) if names else []
        for queue_id, value in zip(queue_ids, values, strict=True):
            self._queues[queue_id] = _Known(since={} if value is None else _since(_bytes(value)))


class _Known(NamedTuple):
    """A queue as it was published: None if it has to be published again; since when each of its
    blockers has stood; and of its value the parts that depend on these two alone."""

    since: Mapping[object, datetime]
    verdict: QueueVerdict | None = None
    packed_verdicts: msgspec.Raw = msgspec.Raw()
    packed_since: msgspec.Raw = msgspec.Raw()


class _PackedQueue(PublishedOrder, frozen=True, kw_only=True):
    """A PublishedQueue as it is written: most often only its order is another one."""

    verdicts: msgspec.Raw
    since: msgspec.Raw


def _compare(verdict: QueueVerdict, before: _Known, *, at: datetime) -> _Known:
    """`before` itself if the queue is as it was published."""
    if before.verdict is not None:
        if before.verdict is verdict or before.verdict == verdict:
            return before
        if before.verdict.verdicts == verdict.verdicts:
            return before._replace(verdict=verdict)
    blockers = {_same(blocker) for blockers in verdict.verdicts for blocker in blockers}
    since = {key: before.since.get(key, at) for key in blockers}
    instants = [[since[_same(blocker)] for blocker in blockers] for blockers in verdict.verdicts]
    return _Known(
        since=since,
        verdict=verdict,
        packed_verdicts=msgspec.Raw(msgspec.msgpack.encode(verdict.verdicts)),
        packed_since=msgspec.Raw(msgspec.msgpack.encode(instants)),
    )


def _since(value: bytes) -> dict[object, datetime]:
    try:
        queue = msgspec.msgpack.decode(value, type=PublishedQueue)
    except msgspec.MsgspecError:
        # Somebody else's value, or one of another version: it is about to be replaced anyway.
        return {}
    pairs = zip(queue.verdicts, queue.since, strict=True)
    return {
        _same(blocker): since
        for blockers, instants in pairs
        for blocker, since in zip(blockers, instants, strict=True)
    }


def read_queue(client: redis.Redis, queue_id: int) -> PublishedQueue | None:
    """What the last cycle that changed this queue published; None before the first."""
    value = client.get(keys.verdict(queue_id))
    return None if value is None else msgspec.msgpack.decode(_bytes(value), type=PublishedQueue)


def read_numbers(client: redis.Redis) -> dict[str, int]:
    """The shared amounts that `have_key` and `limit_key` name."""
    value = client.get(keys.VERDICT_NUMBERS)
    return {} if value is None else msgspec.msgpack.decode(_bytes(value), type=dict[str, int])


def _published(
    verdict: QueueVerdict,
    known: _Known,
    *,
    epoch: int,
    cycle: int,
    at: datetime,
    guard_seconds: float | None,
) -> _PackedQueue:
    order = verdict.order
    return _PackedQueue(
        queue_id=verdict.queue_id,
        epoch=epoch,
        cycle=cycle,
        at=at,
        group_ids=order.group_ids,
        unit_ids=order.unit_ids,
        verdict_of=order.verdict_of,
        is_eligible=order.is_eligible,
        growing=verdict.growing,
        guard_seconds=guard_seconds,
        verdicts=known.packed_verdicts,
        since=known.packed_since,
    )


def _same(blocker: Blocker) -> object:
    """What makes two blockers of one queue the same one over time: not how many nodes are up, or
    which ones are down."""
    scope = ((name, value) for name, value in blocker.scope.items() if name not in _PASSING)
    return blocker.code, blocker.need, tuple(sorted(scope))


def _bytes(value: bytes | str) -> bytes:
    """redis-py's types cannot know that answers are not decoded here."""
    assert isinstance(value, bytes)
    return value
