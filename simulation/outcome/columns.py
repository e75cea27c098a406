"""Columns of an outcome: arrays of the standard library, of one length each, which numpy reads without a copy
(`numpy.frombuffer`, or `numpy.asarray`). A million groups take about 90 MB."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TypeAlias

#: Typecodes `d` (8 bytes), `i` (4) and `q` (8).
Floats: TypeAlias = "array[float]"
Ints: TypeAlias = "array[int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """One entry for each group, by its number; see GroupOutcome. NaN where that says None. `tenant`: index
    into the outcome's `tenants`; `fate`: a Fate."""

    tenant: Ints
    gpus: Ints
    submitted_at: Floats
    first_started_at: Floats
    last_started_at: Floats
    ended_at: Floats
    ran_seconds: Floats
    evictions: Ints
    wasted_gpu_seconds: Floats
    fate: Ints
    time_limit_seconds: Floats
    bound_seconds: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Who held how many GPUs from when to when, in the order of the ends: one entry for each attempt of a
    unit, so of an independent group many. Those that have not ended when the replay ends do so then."""

    group: Ints
    gpus: Ints
    started_at: Floats
    ended_at: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The site after each cycle that changed something; what is said holds until the next.

    `up_gpus`: of nodes that are ready. `held_gpus`: by running and by stopping groups. `torn_gpus`: free GPUs
    of ready nodes on which others are held, so that they are of no use to a member that needs a whole node:
    their part of all free ones is the fragmentation. `waiting` groups, that ask for `waiting_gpus`.
    """

    at: Floats
    up_gpus: Ints
    held_gpus: Ints
    torn_gpus: Ints
    waiting: Ints
    waiting_gpus: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictions:
    """Who gave way to whom. `lost_gpu_seconds`: all that the attempt had done, as nobody in a log keeps
    checkpoints, and the restart to come."""

    at: Floats
    group: Ints
    claimant: Ints
    lost_gpu_seconds: Floats
