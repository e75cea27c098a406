"""`python -m bench [NAME ...]`: run benchmarks, store what they found, and write the page; without names all
of them, and with `all` also what has options of its own. `python -m bench COMMAND ...` runs one of those."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import NoReturn

from bench import cycle, decision, local, turnover
from bench.check import run as check
from bench.crowd import run as crowd
from bench.history import run as history
from bench.machine import describe_machine, load_average
from bench.page.charts import draw_all
from bench.page.markdown import write_page
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
#: What takes arguments of its own and returns an exit code, by its name.
COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "check": check.main,
    "suite": suite.main,
}
#: What `all` runs besides, each with its arguments.
LONGER: Sequence[tuple[str, ...]] = (
    ("suite", "baseline"),
    ("suite", "baseline", "--preemption", "off"),
    ("suite", "tas"),
    ("suite", "tas", "--preemption", "off"),
    ("suite", "large-scale"),
    ("suite", "large-scale", "--virtual"),
)
_ALL = "all"


def main() -> int:
    """0 if every limit is kept or `--no-limits` was given, else 1."""
    # A benchmark that is told to stop ends its servers.
    signal.signal(signal.SIGTERM, _stop)
    if command := COMMANDS.get(next(iter(sys.argv[1:]), "")):
        return command(sys.argv[2:])
    options = _parse()
    is_all = options.names == [_ALL]
    is_kept = True
    for name in BENCHMARKS if is_all else options.names or BENCHMARKS:
        stored = _run(name, options.scale)
        is_kept &= show(stored)
        if not options.dry:
            write_stored(stored)
    for name, *arguments in LONGER if is_all else ():
        is_kept &= COMMANDS[name](arguments) == 0
    if not options.dry:
        draw_all()
        write_page()
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
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*BENCHMARKS, _ALL, *COMMANDS)))
    parser.add_argument("--scale", type=float, default=1.0, help="length of the runs; 0.1 is a tenth")
    parser.add_argument("--dry", action="store_true", help="store nothing")
    parser.add_argument("--no-limits", action="store_true", help="end with 0 also if a limit is not kept")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS and options.names != [_ALL]]:
        parser.error(f"no benchmark is named {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    return options


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
