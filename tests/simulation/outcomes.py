"""Outcomes as a test writes them down: the groups, when each of their attempts ran, and what follows."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import nan

from simulation.outcome.columns import Attempts, Evictions, Groups, Samples
from simulation.outcome.group import Fate
from simulation.outcome.outcome import History, Outcome

START_AT = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Run:
    """`held`: when it held its GPUs; all but the last time in vain. Without any it still waits, unless it
    is said when it `left`."""

    at: float
    gpus: int = 1
    held: Sequence[tuple[float, float]] = ()
    tenant: str = "a"
    fate: Fate | None = None
    left: float = nan
    bound: float = nan


def outcome(
    runs: Sequence[Run],
    *,
    up: int = 8,
    torn: Sequence[tuple[float, int]] = (),
    histories: Sequence[History] = (),
    policy: str = "fifo",
) -> Outcome:
    """`up` GPUs from the first submission on; `torn` from each instant on."""
    tenants = tuple(sorted({run.tenant for run in runs}))
    attempts = sorted(
        (end, number, run.gpus, begin) for number, run in enumerate(runs) for begin, end in run.held
    )
    return Outcome(
        site="made",
        policy=policy,
        start_at=START_AT,
        end_at=max([run.at for run in runs] + [attempt[0] for attempt in attempts]),
        tenants=tenants,
        groups=_groups(runs, tenants),
        attempts=Attempts(
            group=array("i", [number for _, number, _, _ in attempts]),
            gpus=array("i", [gpus for _, _, gpus, _ in attempts]),
            started_at=array("d", [begin for _, _, _, begin in attempts]),
            ended_at=array("d", [end for end, _, _, _ in attempts]),
        ),
        samples=_samples(runs, up, dict(torn)),
        evictions=Evictions(
            at=array("d"), group=array("i"), claimant=array("i"), lost_gpu_seconds=array("d")
        ),
        histories=tuple(histories),
        cycles=len(runs),
        cpu_seconds=0.0,
    )


def _groups(runs: Sequence[Run], tenants: Sequence[str]) -> Groups:
    return Groups(
        tenant=array("i", [tenants.index(run.tenant) for run in runs]),
        gpus=array("i", [run.gpus for run in runs]),
        submitted_at=array("d", [run.at for run in runs]),
        first_started_at=array("d", [run.held[0][0] if run.held else nan for run in runs]),
        last_started_at=array("d", [run.held[-1][0] if run.held else nan for run in runs]),
        ended_at=array("d", [run.held[-1][1] if run.held else run.left for run in runs]),
        ran_seconds=array("d", [run.held[-1][1] - run.held[-1][0] if run.held else 0.0 for run in runs]),
        evictions=array("i", [max(0, len(run.held) - 1) for run in runs]),
        wasted_gpu_seconds=array(
            "d", [float(run.gpus * sum(end - begin for begin, end in run.held[:-1])) for run in runs]
        ),
        fate=array("i", [_fate(run) for run in runs]),
        time_limit_seconds=array("d", [nan for _ in runs]),
        bound_seconds=array("d", [run.bound for run in runs]),
    )


def _fate(run: Run) -> Fate:
    if run.fate is not None:
        return run.fate
    return Fate.SUCCEEDED if run.held else Fate.WAITING


def _samples(runs: Sequence[Run], up: int, torn: dict[float, int]) -> Samples:
    """One at each instant at which anything changes, counted anew."""
    moments = {0.0, *torn, *(run.at for run in runs)}
    moments |= {moment for run in runs for span in run.held for moment in span}
    at = sorted(moments)
    held = [sum(run.gpus for run in runs for b, e in run.held if b <= t < e) for t in at]
    waiting = [[run for run in runs if _waits(run, t)] for t in at]
    return Samples(
        at=array("d", at),
        up_gpus=array("i", [up] * len(at)),
        held_gpus=array("i", held),
        torn_gpus=array("i", [_last(torn, now) for now in at]),
        waiting=array("i", [len(each) for each in waiting]),
        waiting_gpus=array("i", [sum(run.gpus for run in each) for each in waiting]),
    )


def _last(torn: dict[float, int], now: float) -> int:
    known = [at for at in torn if at <= now]
    return torn[max(known)] if known else 0


def _waits(run: Run, now: float) -> bool:
    is_there = run.at <= now and not now >= (run.held[-1][1] if run.held else run.left)
    return is_there and not any(begin <= now < end for begin, end in run.held)
