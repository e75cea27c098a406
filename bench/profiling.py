"""Where CPU time goes: functions of the service's processes, and statements of PostgreSQL.

To look costs time, so a profiled run is one of its own, and its shares are of that run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, create_engine, text

from bench.results import Figure
from bench.servers import whole_stack
from workers.embedded.postgres import PostgresServer
from workers.stack import Stack

#: What each process does again and again.
WORK: Mapping[str, str] = {"dispatcher": "DispatcherLoop.run", "worker": "CycleTask.run"}
#: What an API process does, with its threads.
SERVING: Mapping[str, str] = {"api": "service/api/server.py:run"}

_SAMPLER = Path(__file__).parent / "sampling"
#: Functions by process and statements that are named one by one.
_MOST_FUNCTIONS, _MOST_STATEMENTS = 9, 8
_LEAST_PERCENT = 3.0
_LONGEST_TEXT = 72
_REST = "all else"

#: COPY is left out, for its time is mostly that of the client that sends the rows; and what a benchmark
#: asks itself.
_STATEMENTS = """
SELECT query, calls, total_exec_time + total_plan_time AS milliseconds
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
AND calls > 0 AND query NOT LIKE 'COPY%' AND query NOT LIKE 'CREATE EXTENSION%'
  AND query NOT LIKE 'VACUUM%' AND query NOT LIKE '%/* bench */%'
ORDER BY milliseconds DESC
"""

#: Frames from the outermost to the innermost.
Stacks = Counter[tuple[str, ...]]


#: (text, calls, milliseconds in the server)
Statement = tuple[str, int, float]


@dataclass(slots=True)
class Profile:
    """Filled when its stack has ended. `loops`: processes to look at, each with the function that is its
    work, so that starting up counts for nothing. `stacks`: how often each stack of the service's own
    frames was seen inside that, by process. `statements`: (text, calls, milliseconds in the server)."""

    loops: Mapping[str, str]
    stacks: dict[str, Stacks] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def parts(self) -> list[Figure]:
        """Shares of each process's CPU by function, callees included, and of the time of all statements."""
        return [
            *(
                Figure(name=f"{name}: {function}", value=round(share, 1), unit="% of its CPU")
                for name in self.loops
                for function, share in shares(self.stacks[name])
            ),
            *_statement_parts(self.statements),
        ]


@contextmanager
def profiled_stack(
    folder: Path, profile: Profile, *, nodes: str, launcher: str, levels: str = "host"
) -> Iterator[Stack]:
    """`whole_stack`, watched."""
    samples = folder / "samples"
    samples.mkdir()
    data = folder / "data"
    data.mkdir(mode=0o711)
    have_statements_counted(data)
    watching = {"PYTHONPATH": str(_SAMPLER), "BENCH_SAMPLES": str(samples)}
    pids: dict[str, int] = {}
    with whole_stack(folder, nodes=nodes, launcher=launcher, more=watching, levels=levels) as stack:
        engine = create_engine(stack.parts.postgres.url)
        try:
            create_statements(engine)
            yield stack
            pids = {part.name: part.pid for part in stack.parts.watched if part.pid is not None}
            profile.statements = read_statements(engine)
        finally:
            engine.dispose()
    for name, loop in profile.loops.items():
        profile.stacks[name] = _read(samples / f"{pids[name]}.stacks", loop)


def shares(stacks: Stacks) -> list[tuple[str, float]]:
    """Parts of the whole in percent, the largest first: functions with all that they call. The largest
    part is cut up into the functions that it calls, until there are enough parts."""
    total = sum(stacks.values())
    least = _LEAST_PERCENT * total / 100
    parts: dict[tuple[str, ...], int] = {(): total}
    whole = set[tuple[str, ...]]()
    while sum(count >= least for count in parts.values()) < _MOST_FUNCTIONS:
        largest = max(parts.keys() - whole, key=lambda part: parts[part], default=None)
        if largest is None or parts[largest] < 2 * least:
            break
        below = _below(stacks, largest)
        own = parts.pop(largest) - sum(below.values())
        # What it does itself stays a part, under its name.
        parts |= {**below, **({largest: own} if own else {})}
        whole.add(largest)
    found = Counter[str]()
    for part, count in parts.items():
        found[_named(part) if count >= least else _REST] += count
    return [(name, 100 * count / total) for name, count in found.most_common()]


def _below(stacks: Stacks, part: tuple[str, ...]) -> Mapping[tuple[str, ...], int]:
    """Samples by the next frame inward."""
    below = Counter[tuple[str, ...]]()
    for stack, count in stacks.items():
        if len(stack) > len(part) and stack[: len(part)] == part:
            below[stack[: len(part) + 1]] += count
    return below


def _named(part: tuple[str, ...]) -> str:
    file, _, function = part[-1].partition(":") if part else ("", "", "the interpreter")
    return f"{function} ({file})" if file else function


def _read(path: Path, loop: str) -> Stacks:
    """What lies inside of `loop`, with its file or without. RuntimeError if it was never seen."""
    stacks: Stacks = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        count, _, frames = line.partition(" ")
        outermost_first = frames.split(";")[::-1]
        names = outermost_first if ":" in loop else [frame.partition(":")[2] for frame in outermost_first]
        if loop in names:
            stacks[tuple(outermost_first[names.index(loop) :])] += int(count)
    if not stacks:
        raise RuntimeError(f"no sample has {loop}")
    return stacks


def _statement_parts(statements: list[Statement]) -> Iterator[Figure]:
    total = sum(milliseconds for _, _, milliseconds in statements)
    for query, calls, milliseconds in statements[:_MOST_STATEMENTS]:
        name = f"postgres: {short_statement(query)}, {1000 * milliseconds / calls:.0f} µs each"
        yield Figure(name=name, value=round(100 * milliseconds / total, 1), unit="% of its statements")


def short_statement(query: str) -> str:
    words = " ".join(query.split()).replace("|", "/")
    return f"{words[:_LONGEST_TEXT]} …" if len(words) > _LONGEST_TEXT else words


def have_statements_counted(folder: Path, *, track: str = "top") -> None:
    """By the PostgreSQL that will be started in `folder`: the library has to be there when it starts.
    `track` as `pg_stat_statements.track`."""
    with PostgresServer.start(folder / "postgres", socket_dir=folder / "sockets") as postgres:
        engine = create_engine(postgres.url, isolation_level="AUTOCOMMIT")
        try:
            _run(engine, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
            _run(engine, "ALTER SYSTEM SET pg_stat_statements.track_planning = on")
            _run(engine, f"ALTER SYSTEM SET pg_stat_statements.track = '{track}'")
        finally:
            engine.dispose()


def create_statements(engine: Engine) -> None:
    """The view that `read_statements` reads, in the engine's database."""
    _run(engine, "CREATE EXTENSION pg_stat_statements")


def read_statements(engine: Engine) -> list[Statement]:
    """Of the engine's database, the longest in sum first."""
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(text(_STATEMENTS))]


def _run(engine: Engine, statement: str) -> None:
    with engine.begin() as conn:
        conn.execute(text(statement))
