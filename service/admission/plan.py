"""What a cycle decided. The plan leaves nothing to choose; commit checks it against the present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from service.admission.packed_order import PackedOrder
from service.admission.pauses import GuardPause
from service.domain.claim import Claim
from service.domain.node import Place
from service.domain.preemption import Entitlement, WasteCause
from service.domain.reasons import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One unit and exactly where it goes.

    `unit_id` is the admitted unit: for a member split off a waiting range, its own id, while
    `from_unit_id` is the row that waited. `version` is that row's version, for compare-and-set.
    `index` is the member index of an independent unit, 0 for a gang. Amounts by node are for the
    ledger; `usage` is by quota resource. `is_resizable`: it may grow and
    shrink while it runs, and its launcher can do that.
    """

    unit_id: int
    from_unit_id: int
    group_id: int
    queue_id: int
    shape_id: int
    pool_id: int
    index: int
    attempt: int
    version: int
    places: tuple[Place, ...]
    usage: Mapping[str, int]
    cpus_milli_by_node: Mapping[int, int]
    memory_mib_by_node: Mapping[int, int]
    is_resizable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of two queues below the cohort that they have in common; infinity for weight 0."""

    claimant: float
    victim: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """For whom a running unit gives way, by what right, and what that loses. `lost_gpu_seconds`: its price,
    which is the work since its last checkpoint, and the cost of a restart; of surplus members only that."""

    claimant_id: int
    entitlement: Entitlement
    before: Shares
    after: Shares
    lost_gpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A running unit that gives way as a whole."""

    unit_id: int
    attempt: int
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A running unit whose places change: it gets `added`, or gives up `dropped`. `revision` is the new one.

    `places` and `usage` are all that it holds from then on; what it gives up is among them until its members
    are gone, and `usage_without` is what it holds without the members that come or go. `receipt`: for whom
    it gives up what is dropped."""

    unit_id: int
    attempt: int
    revision: int
    pool_id: int
    places: tuple[Place, ...]
    added: tuple[Place, ...] = ()
    dropped: tuple[Place, ...] = ()
    usage: Mapping[str, int]
    usage_without: Mapping[str, int]
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One code of a verdict. `need` is the class's own number; what it is compared with is shared
    by many and joined when read: `have_key` and `limit_key` name entries of `Plan.numbers`."""

    code: Code
    need: int | None = None
    have_key: str | None = None
    limit_key: str | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVerdict:
    """What readers see of a queue: the order in which the next cycle considers what waits, and
    one list of blockers for each class, ranked. `growing`: groups that run and wait for more members, each
    with the index of what keeps it from them."""

    queue_id: int
    order: PackedOrder
    verdicts: tuple[tuple[Blocker, ...], ...]
    growing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`claims_made` are new ones, and those that changed; `claims_ended` names the units whose claim is over,
    `wasted` why it is, of those for whom others gave way and who do not start.
    `pauses_made` of guard clocks begin or end now, `pauses_dropped` names by queue and beginning those that
    nobody waits for any more.
    `look_at`: the next instant from which somebody would give way who does not yet, though nothing else
    changes. `queues` holds a verdict for each queue, also where nothing waits. `numbers` are shared
    amounts (free on the nodes that a class allows, quota in use, quota ceilings), of which it holds
    those that a blocker names."""

    config_version: int
    admissions: tuple[Admission, ...]
    evictions: tuple[Eviction, ...] = ()
    claims_made: tuple[Claim, ...] = ()
    claims_ended: frozenset[int] = frozenset()
    wasted: Mapping[int, WasteCause] = field(default_factory=dict)
    resizes: tuple[Resize, ...] = ()
    pauses_made: tuple[GuardPause, ...] = ()
    pauses_dropped: frozenset[tuple[int, datetime]] = frozenset()
    look_at: datetime | None = None
    queues: Mapping[int, QueueVerdict]
    numbers: Mapping[str, int]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to be written of it, but what readers see."""
        return not (
            self.admissions
            or self.evictions
            or self.claims_made
            or self.claims_ended
            or self.resizes
            or self.pauses_made
            or self.pauses_dropped
        )
