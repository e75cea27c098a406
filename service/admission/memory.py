"""What earlier cycles found and a later one may use again unchanged. Nothing here decides: a World
without memory makes the same plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

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


class ClassMemo(NamedTuple):
    """A class's verdict and what it was made from."""

    shape: Verdict
    exceeded: tuple[str, ...]
    merged: Verdict


class Memory:
    """Equal verdicts are one object from cycle to cycle, so that comparing them costs nothing.
    It ends with its configuration."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueMemo] = {}
        self.classes: dict[ClassId, ClassMemo] = {}
        #: Why a class never fits, and the numbers that say so: nothing but configuration.
        self.never: dict[ClassId, tuple[Verdict, dict[str, int]]] = {}
        self._shapes: dict[int, Verdict] = {}

    def same_shape(self, shape_id: int, verdict: Verdict) -> Verdict:
        """The object that stood for an equal verdict of the shape in an earlier cycle."""
        known = self._shapes.get(shape_id)
        if known == verdict:
            return known
        self._shapes[shape_id] = verdict
        return verdict
