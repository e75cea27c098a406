"""What is measured, as columns: one row for each group, one for each attempt, one for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulation.outcome.columns import Floats as FloatColumn
from simulation.outcome.columns import Ints as IntColumn
from simulation.outcome.group import Fate
from simulation.outcome.outcome import Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """In the order of submission. Instants are seconds from the first submission; NaN: it never came.

    `tenant` points into the tenants' names. `ran`: seconds of useful work in the last attempt. `wasted`:
    GPU-seconds that were held and had to be done again. `fate`: a Fate. `bound`: seconds from when it came to
    wait last, as in GroupOutcome.
    """

    tenant: Ints
    gpus: Ints
    submitted: Floats
    started: Floats
    ended: Floats
    ran: Floats
    evictions: Ints
    wasted: Floats
    fate: Ints
    bound: Floats

    def __len__(self) -> int:
        return len(self.gpus)

    @property
    def has_started(self) -> Flags:
        return ~np.isnan(self.started)

    @property
    def is_feasible(self) -> Flags:
        """The site, empty, could hold it."""
        return np.asarray((self.fate != Fate.NEVER_FITS) & (self.gpus > 0))

    @property
    def has_finished(self) -> Flags:
        """It started and came to its end, whatever kind of end that was."""
        return self.has_started & ~np.isnan(self.ended)

    @property
    def wait(self) -> Floats:
        """From the submission to the first start; NaN if it never started."""
        return self.started - self.submitted

    @property
    def jct(self) -> Floats:
        """Job completion time, from the submission to the end; NaN unless it finished."""
        return np.where(self.has_started, self.ended - self.submitted, np.nan)


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """What was held when: `group` is a row of Groups, and GPUs were held from `begin` until `end`."""

    group: Ints
    gpus: Ints
    begin: Floats
    end: Floats


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Each row holds from its `at` to that of the next one. `torn_gpus`: free ones beside held ones, on nodes
    of which a member that needs a whole node can have no use."""

    at: Floats
    gpus_up: Floats
    gpus_held: Floats
    waiting_groups: Floats
    waiting_gpus: Floats
    torn_gpus: Floats


@dataclass(frozen=True, kw_only=True)
class Table:
    """One replay. `shares`: the GPUs that each tenant is entitled to, in the order of `tenants`."""

    tenants: tuple[str, ...]
    shares: Floats
    groups: Groups
    attempts: Attempts
    samples: Samples

    @property
    def capacity(self) -> float:
        """The most GPUs that were ever up."""
        return float(self.samples.gpus_up.max(initial=0))

    @property
    def last_submission(self) -> float:
        return float(self.groups.submitted.max(initial=0))

    @property
    def last_start(self) -> float:
        return float(np.nanmax(self.groups.started, initial=0)) if self.groups.has_started.any() else 0.0

    @property
    def horizon(self) -> float:
        """The last instant at which anything happened."""
        ends = (self.groups.submitted, self.groups.ended, self.attempts.end, self.samples.at)
        return max(float(np.nanmax(each, initial=0)) if len(each) else 0.0 for each in ends)


def table_of(outcome: Outcome, shares: Mapping[str, float]) -> Table:
    """`shares`: GPUs by tenant; whoever is not named there gets an equal part of what is up."""
    groups, attempts, samples = outcome.groups, outcome.attempts, outcome.samples
    up = _floats(samples.up_gpus)
    equal = float(up.max(initial=0)) / max(1, len(outcome.tenants))
    return Table(
        tenants=outcome.tenants,
        shares=np.array([shares.get(tenant, equal) for tenant in outcome.tenants], dtype=np.float64),
        groups=Groups(
            tenant=_ints(groups.tenant),
            gpus=_ints(groups.gpus),
            submitted=_floats(groups.submitted_at),
            started=_floats(groups.first_started_at),
            ended=_floats(groups.ended_at),
            ran=_floats(groups.ran_seconds),
            evictions=_ints(groups.evictions),
            wasted=_floats(groups.wasted_gpu_seconds),
            fate=_ints(groups.fate),
            bound=_floats(groups.bound_seconds),
        ),
        attempts=Attempts(
            group=_ints(attempts.group),
            gpus=_ints(attempts.gpus),
            begin=_floats(attempts.started_at),
            end=_floats(attempts.ended_at),
        ),
        samples=Samples(
            at=_floats(samples.at),
            gpus_up=up,
            gpus_held=_floats(samples.held_gpus),
            waiting_groups=_floats(samples.waiting),
            waiting_gpus=_floats(samples.waiting_gpus),
            torn_gpus=_floats(samples.torn_gpus),
        ),
    )


def _floats(column: FloatColumn | IntColumn) -> Floats:
    return np.asarray(column, dtype=np.float64)


def _ints(column: IntColumn) -> Ints:
    return np.asarray(column, dtype=np.int64)
