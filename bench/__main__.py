"""`python -m bench [NAME ...]`: run benchmarks, store what they found, and write the page. `python -m bench
suite NAME` runs a workload of a peer."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import NoReturn

from bench import cycle, decision, local, turnover
from bench.crowd import run as crowd
from bench.history import run as history
from bench.machine import describe_machine, load_average
from bench.page.markdown import write_readme
from bench.page.shown import show
from bench.results import Result, Stored, write_stored
from bench.scale import run as scale
from bench.servers import short_folder
from bench.streams import run as streams
from bench.submit import run as submit
from bench.suite import command as suite

#: In the order in which they run; the value runs one at full or at a shorter length.
BENCHMARKS: Mapping[str, Callable[[float], Result]] = {
    "cycle": cycle.run,
    "crowd": crowd.run,
    "decision": decision.run,
    "submit": submit.run,
    "streams": streams.run,
    "turnover": turnover.run,
    "local": local.run,
    "history": history.run,
    "scale": scale.run,
}


def main() -> int:
    """0 if every limit is kept or `--no-limits` was given, else 1."""
    if sys.argv[1:2] == ["suite"]:
        return suite.main(sys.argv[2:])
    options = _parse()
    # A benchmark that is told to stop ends its servers.
    signal.signal(signal.SIGTERM, _stop)
    is_kept = True
    for name in options.names or BENCHMARKS:
        stored = _run(name, options.scale)
        is_kept &= show(stored)
        if not options.dry:
            write_stored(stored)
    if not options.dry:
        write_readme()
    return 0 if is_kept or options.no_limits else 1


def _run(name: str, scale: float) -> Stored:
    print(f"{name} ...", flush=True)
    before, began_at = load_average(), time.monotonic()
    result = BENCHMARKS[name](scale)
    took = time.monotonic() - began_at
    with short_folder() as folder:
        machine = describe_machine(folder)
    return Stored(result=result, machine=machine, load_average=before, took_seconds=round(took, 1))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs; 0.1 is a tenth")
    parser.add_argument("--dry", action="store_true", help="store nothing")
    parser.add_argument("--no-limits", action="store_true", help="end with 0 also if a limit is not kept")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark is named {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    return options


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
