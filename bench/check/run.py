"""`python -m bench check`: end with 1 if a gauge is more than 20 % above its stored ratio."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.check.cycles import cycle_gauges
from bench.check.decisions import Sizes, decision_gauges
from bench.check.gauge import Gauge, slowed
from bench.check.stacks import stack_gauges
from bench.check.stored import Ratios, read_ratios, write_ratios
from bench.check.verdict import MOST, Verdict, judge
from bench.machine import describe_machine, load_average
from bench.servers import both_stores, short_folder


def main(arguments: Sequence[str]) -> int:
    """0 if nothing got slower."""
    options = _parse(arguments)
    began_at, before = time.monotonic(), load_average()
    stored = {} if options.store else read_ratios().ratios
    verdicts = [
        *_decisions(stored, options.plant),
        *_cycles(stored, options.plant),
        *_stacks(stored, options.plant),
    ]
    took = time.monotonic() - began_at
    print(f"took {took:.0f} s, load average before {before:g}, after {load_average():g}", flush=True)
    if options.store:
        _store(verdicts)
        return 0
    return 1 if any(verdict.is_slower for verdict in verdicts) else 0


def _decisions(stored: dict[str, float], percent: float) -> list[Verdict]:
    return _judged(decision_gauges(Sizes()), stored, percent)


def _cycles(stored: dict[str, float], percent: float) -> list[Verdict]:
    with ExitStack() as close:
        folder = close.enter_context(short_folder())
        database_url, redis_url = close.enter_context(both_stores(folder))
        return _judged(cycle_gauges(database_url, redis_url, close), stored, percent)


def _stacks(stored: dict[str, float], percent: float) -> list[Verdict]:
    with ExitStack() as close:
        return _judged(stack_gauges(close), stored, percent)


def _judged(gauges: Sequence[Gauge], stored: dict[str, float], percent: float) -> list[Verdict]:
    planted = [slowed(gauge, percent=percent) for gauge in gauges] if percent else gauges
    verdicts = judge(planted, stored, say=lambda what: print(f"  {what}", flush=True))
    for verdict in verdicts:
        print(_line(verdict), flush=True)
    return verdicts


def _line(verdict: Verdict) -> str:
    if verdict.stored is None:
        return f"  {verdict.name}: {verdict.ratio:.3f}, nothing stored"
    told = f"  {verdict.name}: {verdict.ratio:.3f}, stored {verdict.stored:.3f}: × {verdict.change:.2f}"
    return f"{told}, SLOWER (more than × {MOST:g})" if verdict.is_slower else told


def _store(verdicts: Sequence[Verdict]) -> None:
    with short_folder() as folder:
        machine = describe_machine(folder)
    write_ratios(Ratios(machine=machine, ratios={each.name: round(each.ratio, 4) for each in verdicts}))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench check", description=__doc__)
    parser.add_argument("--store", action="store_true", help="store what is measured, and compare nothing")
    parser.add_argument(
        "--plant",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="have every gauge's product work so much longer, to see that it is noticed",
    )
    return parser.parse_args(arguments)
