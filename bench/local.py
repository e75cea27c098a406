"""Real processes: a batch of one-process groups through the local launcher."""

from __future__ import annotations

import time

from sqlalchemy import Engine, create_engine, text

from bench.cpu import CpuMeter
from bench.results import Figure, Result, milliseconds
from bench.servers import require_fsync, short_folder, whole_stack
from bench.waiting import wait_for

_GROUPS = 1000
#: Processes at once.
_CPUS = 64
_GROUP = {"name": "true", "members": 1, "gpus": 0, "cpus": 1, "memory_gib": 1, "command": ["/bin/true"]}

_LEFT = "SELECT count(*) FROM units WHERE ended_at IS NULL"
_OUTCOMES = "SELECT count(*) FILTER (WHERE status = 'Succeeded') FROM units"
_INSTANTS = """
SELECT extract(epoch FROM max(ended_at) - min(submitted_at)),
  extract(epoch FROM min(admitted_at) - min(submitted_at)),
  extract(epoch FROM max(admitted_at) - min(submitted_at))
FROM units JOIN groups ON groups.id = units.group_id
"""


def run(scale: float) -> Result:
    """On a stack of its own."""
    count = max(20, round(_GROUPS * scale))
    with (
        short_folder() as folder,
        whole_stack(folder, nodes=f"1x0:cpus={_CPUS},memory=1024GiB", launcher="local") as stack,
        stack.client() as client,
    ):
        engine = create_engine(stack.parts.postgres.url)
        try:
            require_fsync(engine)
            meter, began_at = CpuMeter(stack), time.monotonic()
            client.submit_batch([_GROUP] * count)
            accepted = time.monotonic() - began_at
            wait_for(lambda: _ask(engine, _LEFT)[0] == 0, "every group has ended", seconds=180, pause=0.05)
            took, cpu = time.monotonic() - began_at, meter.seconds()
            if _ask(engine, _OUTCOMES)[0] != count:
                raise RuntimeError("not every /bin/true has succeeded")
            recorded, first, last = _ask(engine, _INSTANTS)
        finally:
            engine.dispose()
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
            Figure(name="groups", value=round(count / took, 1), unit="groups/s", at_least=100),
            Figure(name="from the request to the last recorded end", value=round(took, 2), unit="s"),
        ],
        parts=[
            milliseconds("request answered after", accepted),
            milliseconds("first admission after", float(first)),
            milliseconds("last admission after", float(last)),
            milliseconds("last end after", float(recorded)),
            *(
                Figure(name=f"CPU of {name}", value=round(1e6 * used / count), unit="µs a group")
                for name, used in sorted(cpu.items(), key=lambda entry: -entry[1])
            ),
        ],
    )


def _ask(engine: Engine, statement: str) -> tuple[float, ...]:
    with engine.connect() as conn:
        return tuple(conn.execute(text(statement)).one())
