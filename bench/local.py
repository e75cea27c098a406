"""Real processes: a batch of one-process groups through the local launcher."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, create_engine, text

from bench.cpu import CpuMeter
from bench.profiling import WORK, Profile, profiled_stack
from bench.results import Figure, Result, milliseconds
from bench.servers import require_fsync, short_folder, whole_stack
from bench.waiting import wait_for
from workers.stack import Stack

_GROUPS = 1000
_PROFILED_GROUPS = 500
#: Processes at once.
_CPUS = 64
_NODE = f"1x0:cpus={_CPUS},memory=1024GiB"
_GROUP = {"name": "true", "members": 1, "gpus": 0, "cpus": 1, "memory_gib": 1, "command": ["/bin/true"]}

_LIMIT = (
    "Each group is four new processes on the same cores (a fork of the spawner for its supervisor, a fork of"
    " that for its member, the program, and the page tables of each), with a record that is durable before"
    " the program is executed and one when it has ended: what the machine forks and syncs is the limit, and"
    " the service's own processes take the rest of the cores."
)

_LEFT = "SELECT /* bench */ count(*) FROM units WHERE ended_at IS NULL"
_OUTCOMES = "SELECT count(*) FILTER (WHERE status = 'Succeeded') FROM units"
_INSTANTS = """
SELECT extract(epoch FROM max(ended_at) - min(submitted_at)),
  extract(epoch FROM min(admitted_at) - min(submitted_at)),
  extract(epoch FROM max(admitted_at) - min(submitted_at))
FROM units JOIN groups ON groups.id = units.group_id
"""


def run(scale: float) -> Result:
    """On stacks of their own: one is measured, another is looked at."""
    count = max(20, round(_GROUPS * scale))
    with short_folder() as folder, whole_stack(folder, nodes=_NODE, launcher="local") as stack:
        driven = _drive(stack, count)
    profile = Profile(loops=WORK)
    with short_folder() as folder, profiled_stack(folder, profile, nodes=_NODE, launcher="local") as stack:
        _drive(stack, min(count, _PROFILED_GROUPS))
    return _result(driven, profile, count)


@dataclass(frozen=True, kw_only=True)
class _Driven:
    """Seconds: until the batch was accepted and until the last end was recorded; by the books from the
    submission to the last end and to the first and last admission; of CPU by process."""

    accepted: float
    took: float
    ended: float
    first: float
    last: float
    cpu: Mapping[str, float]


def _drive(stack: Stack, count: int) -> _Driven:
    engine = create_engine(stack.parts.postgres.url)
    try:
        require_fsync(engine)
        with stack.client() as client:
            meter, began_at = CpuMeter(stack), time.monotonic()
            client.submit_batch([_GROUP] * count)
            accepted = time.monotonic() - began_at
            wait_for(lambda: _ask(engine, _LEFT)[0] == 0, "every group has ended", seconds=180, pause=0.05)
            took, cpu = time.monotonic() - began_at, meter.seconds()
        if _ask(engine, _OUTCOMES)[0] != count:
            raise RuntimeError("not every /bin/true has succeeded")
        ended, first, last = map(float, _ask(engine, _INSTANTS))
    finally:
        engine.dispose()
    return _Driven(accepted=accepted, took=took, ended=ended, first=first, last=last, cpu=cpu)


def _result(driven: _Driven, profile: Profile, count: int) -> Result:
    return Result(
        name="local",
        title="Real processes",
        reading=(
            f"The whole stack as shipped with the local launcher and one declared node of {_CPUS} CPUs. One"
            f" batch of {count} groups, each one process of /bin/true under its own supervisor, with a log,"
            " an exit record and every state in PostgreSQL. The time runs from the request to the last"
            " recorded end."
        ),
        parameters={"groups": count, "at_once": _CPUS},
        figures=[
            Figure(name="groups", value=round(count / driven.took, 1), unit="groups/s", at_least=100),
            Figure(name="from the request to the last recorded end", value=round(driven.took, 2), unit="s"),
        ],
        parts=[
            milliseconds("request answered after", driven.accepted),
            milliseconds("first admission after", driven.first),
            milliseconds("last admission after", driven.last),
            milliseconds("last end after", driven.ended),
            *(
                Figure(name=f"CPU of {name}", value=round(1e6 * used / count), unit="µs a group")
                for name, used in sorted(driven.cpu.items(), key=lambda entry: -entry[1])
            ),
            *profile.parts(),
        ],
        limit=_LIMIT,
    )


def _ask(engine: Engine, statement: str) -> tuple[float, ...]:
    with engine.connect() as conn:
        return tuple(conn.execute(text(statement)).one())
