"""Why those wait who wait longest: looked at again and again, the seldomer the more wait."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappush, heappushpop

from service.admission.packed_order import unpacked
from service.admission.plan import Plan, QueueVerdict
from simulation.outcome.outcome import History
from simulation.replay.rows import Live

#: For each group that waits so many seconds pass before all of them are looked at again, so that a day of
#: the log costs the same whatever waits.
_SECONDS_EACH = 3.0

Codes = tuple[str, ...]


class Reasons:
    """Of each group that waits, when its codes were seen to change; of those that have started, the `kept`
    that waited longest."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._looked_at: float | None = None
        self._waiting: dict[int, list[tuple[float, Codes]]] = {}
        self._codes: dict[Codes, Codes] = {}
        self._longest: list[tuple[float, int, tuple[tuple[float, Codes], ...]]] = []

    def note(self, plan: Plan, at: float, *, waiting: int) -> None:
        last = self._looked_at
        if not self._kept or not waiting or (last is not None and at - last < waiting * _SECONDS_EACH):
            return
        self._looked_at = at
        for verdict in plan.queues.values():
            self._look(verdict, at)

    def _look(self, verdict: QueueVerdict, at: float) -> None:
        codes = [self._same(tuple(each.code.value for each in blockers)) for blockers in verdict.verdicts]
        order = verdict.order
        for group_id, index in zip(unpacked(order.group_ids), unpacked(order.verdict_of), strict=True):
            seen = self._waiting.get(group_id)
            if seen is None:
                self._waiting[group_id] = [(at, codes[index])]
            elif seen[-1][1] is not codes[index]:
                seen.append((at, codes[index]))

    def _same(self, codes: Codes) -> Codes:
        return self._codes.setdefault(codes, codes)

    def start(self, group_id: int, number: int, *, at: float, since: float) -> None:
        """It waits no longer. What is kept is why it waited for its first start."""
        if not self._kept:
            return
        seen = self._waiting.pop(group_id, [])
        entry = at - since, -number, tuple(seen)
        if len(self._longest) < self._kept:
            heappush(self._longest, entry)
        else:
            heappushpop(self._longest, entry)

    def forget(self, group_id: int) -> None:
        self._waiting.pop(group_id, None)

    def histories(self, live: Mapping[int, Live], *, end_at: float) -> tuple[History, ...]:
        """The longest wait first; who has never started counts until the end."""
        for group_id, seen in self._waiting.items():
            entry = end_at - seen[0][0], -live[group_id].number, tuple(seen)
            heappush(self._longest, entry)
        longest = sorted(self._longest, reverse=True)[: self._kept]
        return tuple(History(number=-number, reasons=reasons) for _, number, reasons in longest)
