"""What earlier cycles found and a later one may use again unchanged. Nothing here decides: a World
without memory makes the same plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from service.admission.backlog import ClassId
from service.admission.plan import Blocker, QueueVerdict

Verdict = tuple[Blocker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMemo:
    """A queue's verdict and what it was made from; it is good until a backoff ends."""

    revision: int
    verdicts: tuple[Verdict, ...]
    turn: Verdict
    good_until: datetime | None
    value: QueueVerdict


class Memory:
    """Equal verdicts are one object from cycle to cycle, so that comparing them costs nothing."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueMemo] = {}
        self._shapes: dict[tuple[int, bool], Verdict] = {}
        self._classes: dict[ClassId, tuple[Verdict, Verdict, Verdict]] = {}

    def same_shape(self, shape_id: int, is_tried: bool, verdict: Verdict) -> Verdict:
        """The object that stood for an equal verdict of the shape in the last cycle."""
        known = self._shapes.get((shape_id, is_tried))
        if known == verdict:
            return known
        self._shapes[shape_id, is_tried] = verdict
        return verdict

    def find_class(self, class_id: ClassId, shape: Verdict, own: Verdict) -> Verdict | None:
        """The merged verdict, if it was made from the same parts."""
        known = self._classes.get(class_id)
        return known[2] if known is not None and known[0] is shape and known[1] == own else None

    def keep_class(self, class_id: ClassId, shape: Verdict, own: Verdict, merged: Verdict) -> None:
        self._classes[class_id] = (shape, own, merged)
