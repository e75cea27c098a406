"""What earlier cycles found and a later one may use again unchanged. Nothing here decides: a World
without memory makes the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import is_
from typing import Any, NamedTuple

from service.admission.differences import NodeChanges
from service.admission.pauses import Halted, Pauses
from service.admission.plan import Blocker, QueueVerdict
from service.admission.quota.book import Exceeded
from service.admission.quota.gates import Gate, Gates
from service.admission.quota.tree_changes import TreeChanges
from service.admission.waiting.backlog import ClassId
from service.admission.waiting.front import Guess
from service.admission.waiting.line import Key

Verdict = tuple[Blocker, ...]
Numbers = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMemo:
    """What was shown of a queue and what it was made from; it is good until a backoff ends. `is_ahead`: it is
    without rows that the cycle admitted, which then still waited; `revision` is what comes of it if they go,
    and nothing else changes."""

    revision: int
    by_shape: Mapping[int, Verdict]
    turn: Verdict
    good_until: datetime | None
    value: QueueVerdict
    is_ahead: bool = False


class DelayedMemo(NamedTuple):
    """What was shown of a queue, but for `delays` of claimants in it; and with them."""

    before: QueueVerdict
    delays: tuple[object, ...]
    value: QueueVerdict


class ClassesMemo(NamedTuple):
    """The verdicts of a queue's classes by shape; those that were stopped by the quota of the models that
    were free; what of quotas they name; and the shared numbers that they name: those of what never fits, and
    all, but for what cohorts have left."""

    by_shape: Mapping[int, Verdict]
    forced: frozenset[int]
    named: frozenset[Exceeded]
    never: Numbers
    numbers: Numbers


class ClassMemo(NamedTuple):
    """A class's verdict and what it was made from."""

    shape: Verdict
    exceeded: tuple[Exceeded, ...]
    merged: Verdict


class ShapeMemo(NamedTuple):
    """A shape's verdict, and how much its fields had grown and shrunk then, and what was kept for
    others: worth nothing without them."""

    stamp: tuple[int, int, int]
    verdict: Verdict
    numbers: Numbers


class HaltedMemo(NamedTuple):
    """Whose guard clocks stand still in a queue, and on what that rests: the answers of its gate, how many of
    its classes never fit, from which quota is kept, and what its single rows rest on; None if that was moved
    by the cycle itself."""

    stamp: tuple[Gate, int, int, frozenset[int], tuple[int, ...] | None]
    halted: Halted


class GuardSearch(NamedTuple):
    """Of a shape, beside all claims but those of these units, which come behind; `avoided`: nodes."""

    shape_id: int
    avoided: frozenset[int]
    behind: tuple[int, ...]


class SettledMemo(NamedTuple):
    """Of a queue whose guard clocks stood or ran as noted, and of which nobody but classes is asked: on what
    that rests."""

    gate: Gate
    answers: int
    infeasible: int
    kept: frozenset[int]
    pauses: Pauses


class Memory:
    """Equal verdicts are one object from cycle to cycle, so that comparing them costs nothing."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueMemo] = {}
        self.delayed: dict[int, DelayedMemo] = {}
        self.queue_classes: dict[int, ClassesMemo] = {}
        self.classes: dict[ClassId, ClassMemo] = {}
        self.shapes: dict[int, ShapeMemo] = {}
        #: Each shape's own verdict, as the verdicts of its classes have it.
        self.shown: dict[int, Verdict] = {}
        self.gates = Gates()
        #: Why a class never fits, and the numbers that say so: nothing but configuration.
        self.never: dict[ClassId, tuple[Verdict, Numbers]] = {}
        #: By queue, the classes that never fit.
        self.infeasible: dict[int, set[int]] = {}
        self.halted: dict[int, HaltedMemo] = {}
        self.settled: dict[int, SettledMemo] = {}
        #: Which flavors the classes of a queue could take, and how often these had changed then.
        self.flavors: dict[int, tuple[int, frozenset[str]]] = {}
        #: The first row of a queue and what everybody needs who waits in it, with its revision of classes;
        #: and the lowest rank that follows, with the revision of what the queue holds.
        self.guesses: dict[int, tuple[int, Guess]] = {}
        self.ranks: dict[int, tuple[int, Guess, tuple[bool, float, Key]]] = {}
        #: Classes of which no claim can be dated, and on what that rests.
        self.undated: dict[ClassId, tuple[int, int]] = {}
        #: Searches for guards that found nothing, and how often claims had changed then.
        self.vain: tuple[int, set[GuardSearch]] = -1, set()
        #: Queues of which no class's verdict is sure, whatever is told of its shape and of quota.
        self.unsure: set[int] = set()
        #: What cohorts have left, as far as it was named.
        self.left: Numbers = {}
        self._verdicts: dict[int, Verdict] = {}
        self._parts: list[Numbers] = []
        self._numbers: dict[str, int] = {}

    def on_other_nodes(self, changes: NodeChanges) -> Memory:
        """What of it stands where the fields, quotas and queues are the same and these nodes are not: fields
        count for themselves how their nodes changed."""
        memory = Memory()
        memory.queues, memory.queue_classes = self.queues, self.queue_classes
        memory.shapes, memory.shown, memory._verdicts = self.shapes, self.shown, self._verdicts
        memory.gates, memory.flavors = self.gates, self.flavors
        memory._parts, memory._numbers = self._parts, self._numbers
        if changes.is_of_states_alone:
            memory.never, memory.classes, memory.unsure = self.never, self.classes, self.unsure
            memory.infeasible = self.infeasible
        else:
            memory.unsure = set(self.queue_classes)
        return memory

    def forget(self, changes: TreeChanges) -> None:
        """What rests on how queues and cohorts were."""
        by_queue: tuple[dict[int, Any], ...] = (
            self.queues,
            self.delayed,
            self.queue_classes,
            self.infeasible,
            self.halted,
            self.settled,
            self.flavors,
            self.guesses,
        )
        for queue_id in changes.queues:
            for known in by_queue:
                known.pop(queue_id, None)
        for queue_id in changes.near:
            # Shares are of what all of a cohort has.
            self.ranks.pop(queue_id, None)
        by_class: tuple[tuple[dict[ClassId, Any], frozenset[int]], ...] = (
            (self.classes, changes.queues),
            (self.never, changes.queues),
            # Who goes before a claim follows from the whole tree.
            (self.undated, changes.near),
        )
        for of_classes, queue_ids in by_class:
            for class_id in [each for each in of_classes if each[0] in queue_ids]:
                del of_classes[class_id]
        self.gates.forget(changes.queues)

    def same_shape(self, shape_id: int, verdict: Verdict) -> Verdict:
        """The object that stood for an equal verdict of the shape in an earlier cycle."""
        known = self._verdicts.get(shape_id)
        if known == verdict:
            return known
        self._verdicts[shape_id] = verdict
        return verdict

    def merged_numbers(self, parts: list[Numbers]) -> Numbers:
        """All of `parts` in one, by name; the same object as before if the parts are."""
        is_same = len(parts) == len(self._parts) and all(map(is_, parts, self._parts))
        if not is_same:
            merged: dict[str, int] = {}
            for part in parts:
                merged.update(part)
            # Mostly amounts have changed, and not what is named.
            is_named = merged.keys() == self._numbers.keys()
            names = self._numbers if is_named else sorted(merged)
            self._parts, self._numbers = parts, {name: merged[name] for name in names}
        return self._numbers
