"""`python -m bench suite NAME`: one workload of the peer, stored, shown beside the peer, and as JSON."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import msgspec

from bench.machine import Machine, describe_machine, load_average
from bench.page.markdown import write_page
from bench.page.shown import show
from bench.profiling import SERVING, WORK, Profile
from bench.results import Result, Stored, write_stored
from bench.servers import short_folder
from bench.suite.peers import beside_peer
from bench.suite.result import json_line, result_of, told_of, virtual_result
from bench.suite.run import run_suite
from bench.suite.virtual import replay
from bench.suite.workloads import WORKLOADS, Workload


def main(arguments: Sequence[str]) -> int:
    """0 if every limit is kept or `--no-limits` was given, else 1. The last line is JSON."""
    options = _parse(arguments)
    # A benchmark that is told to stop ends its servers.
    signal.signal(signal.SIGTERM, _stop)
    workload = WORKLOADS[options.name]
    if options.scale != 1.0:
        workload = workload.shortened(options.scale)
    before, began_at = load_average(), time.monotonic()
    with short_folder() as folder:
        machine = describe_machine(folder)
    measured = (_decide if options.virtual else _measure)(workload, machine, options)
    took = round(time.monotonic() - began_at, 1)
    stored = Stored(result=measured.result, machine=machine, load_average=before, took_seconds=took)
    if not (options.dry or measured.broken):
        write_stored(stored)
        write_page()
    is_kept = show(stored)
    print(measured.told, flush=True)
    for each in measured.broken:
        print(f"NOT KEPT: {each}", file=sys.stderr)
    return 0 if (is_kept or options.no_limits) and not measured.broken else 1


@dataclass(frozen=True, slots=True)
class _Measured:
    result: Result
    told: str
    broken: tuple[str, ...] = ()


def _measure(workload: Workload, machine: Machine, options: argparse.Namespace) -> _Measured:
    profile = Profile(loops={**WORK, **SERVING}) if options.profile else None
    ran = run_suite(workload, has_preemption=options.preemption == "on", profile=profile)
    table = beside_peer(workload.name, told_of(ran.measures))
    return _Measured(result_of(ran, profile), f"{table}\n{json_line(ran, machine)}", ran.broken)


def _decide(workload: Workload, machine: Machine, options: argparse.Namespace) -> _Measured:
    has_preemption, is_whole = options.preemption == "on", options.scale == 1.0
    decided = replay(workload, has_preemption=has_preemption)
    result = virtual_result(workload, decided, has_preemption=has_preemption, is_whole=is_whole)
    line = {"suite": f"{workload.name} --virtual", "decided": decided, "machine": machine}
    return _Measured(result, msgspec.json.encode(line).decode())


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench suite", description=__doc__)
    parser.add_argument("name", metavar="NAME", choices=WORKLOADS, help=", ".join(WORKLOADS))
    parser.add_argument("--preemption", choices=("on", "off"), default="on", help="on is as the peer has it")
    parser.add_argument("--virtual", action="store_true", help="the decision alone, on a virtual clock")
    parser.add_argument("--profile", action="store_true", help="look at every process; takes longer")
    parser.add_argument("--scale", type=float, default=1.0, help="length of each stream; 0.1 is a tenth")
    parser.add_argument("--dry", action="store_true", help="store nothing")
    parser.add_argument("--no-limits", action="store_true", help="end with 0 also if a limit is not kept")
    options = parser.parse_args(arguments)
    if options.scale != 1.0:
        options.dry = True
    return options


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
