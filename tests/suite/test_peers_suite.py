"""A small scale of the peer's suite goes through the whole stack, and its checker sees what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from bench.machine import describe_machine
from bench.servers import short_folder, whole_stack
from bench.suite.check import check_run
from bench.suite.result import Ran, json_line, result_of
from bench.suite.rules import RULES, broken_rules
from bench.suite.run import run_on
from bench.suite.site import LEVELS, declared_nodes
from bench.suite.virtual import replay
from bench.suite.workloads import WORKLOADS, Workload


def small(name: str) -> Workload:
    """Two queues of one cohort, on few nodes, with the beginning of each stream: so much of it that the last
    large groups have to wait for medium ones."""
    workload = WORKLOADS[name]
    whole = replace(workload, cohorts=1, queues=2, nodes=20 if workload.racks else 4)
    return whole.shortened(0.2 if name == "large-scale" else 0.02)


@contextmanager
def ran_on_a_stack(name: str, *, has_preemption: bool) -> Iterator[tuple[Ran, Engine]]:
    workload = small(name)
    with (
        short_folder() as folder,
        whole_stack(
            folder,
            nodes=declared_nodes(workload),
            launcher="simulated",
            levels=LEVELS if workload.racks else "host",
        ) as stack,
    ):
        ran = run_on(stack, workload, has_preemption=has_preemption)
        engine = create_engine(stack.parts.postgres.url)
        try:
            yield ran, engine
        finally:
            engine.dispose()


@pytest.mark.parametrize("name", ["baseline", "large-scale"])
def test_a_workload_runs_to_its_end_and_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    with ran_on_a_stack(name, has_preemption=False) as (ran, _):
        assert ran.broken == ()
    told = msgspec.json.decode(json_line(ran, describe_machine(tmp_path)))
    assert told["suite"] == name
    assert told["evictions"] == 0
    assert set(told["time_to_admission_ms"]) == {"small", "medium", "large"}
    least = max(each.count * each.interval_ms - each.interval_ms for each in ran.workload.streams) / 1000
    assert least < told["wall_seconds"] < least + 30
    assert 0 < told["useful_usage_percent"] < 100
    figures = {figure.name: figure.value for figure in result_of(ran).figures}
    assert figures["end to start, p50"] > 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_decision_alone_runs_every_group_to_its_end(name: str) -> None:
    workload = small(name)
    decided = replay(workload, has_preemption=True)
    assert decided.admissions - decided.evictions == workload.groups
    assert decided.makespan_seconds >= max(each.count * each.interval_ms for each in workload.streams) / 1000


#: One row of a good run is made wrong, and only the rule that it breaks, or what follows from it, may say so.
_WRONG = {
    "no node holds more than it has": "UPDATE nodes SET cpus_milli = 1",
    "no queue holds more than its quota and borrowing limit": "UPDATE quotas SET borrowing = 0, nominal = 1",
    "no cohort holds more than its queues have": "UPDATE quotas SET nominal = 500",
    "a queue is charged with what its groups hold": (
        "UPDATE closed_attempts SET usage = usage || '{\"cpus\": 1}' WHERE unit_id = :unit"
    ),
    "a gang is whole": "UPDATE closed_attempts SET places = places - 0 WHERE unit_id = :unit",
    "topology is kept": (
        "UPDATE closed_attempts SET places = jsonb_set(places, '{0,2}',"
        " (SELECT to_jsonb(max(id)) FROM nodes))"
    ),
    "no group is lost or doubled": "UPDATE groups SET name = 'twice' WHERE id IN (1, 2)",
    "attempts follow each other, and none the last": (
        "UPDATE closed_attempts SET attempt = attempt + 1 WHERE unit_id = :unit"
    ),
    "every group ran its full time": (
        "UPDATE member_ends SET ended_at = ended_at - interval '1 s' WHERE unit_id = :unit"
    ),
    "who was stopped gave way to a claim": (
        "UPDATE closed_attempts SET outcome = 'Requeued', cause = 'Preempted' WHERE unit_id = :unit"
    ),
}


def test_the_checker_sees_each_rule_broken() -> None:
    with ran_on_a_stack("tas", has_preemption=True) as (ran, engine):
        assert ran.measures.groups == small("tas").groups
        with engine.connect() as conn:
            unit = conn.execute(text("SELECT max(unit_id) FROM closed_attempts WHERE attempt = 1")).scalar()
            assert set(_WRONG) == set(RULES)
            for rule, doctoring in _WRONG.items():
                assert list(broken_rules(conn)) == []
                assert rule in broken_by(conn, doctoring, unit), rule
        with engine.begin() as conn:
            conn.execute(text('UPDATE groups SET labels = \'{"class": "other"}\' WHERE id = 1'))
        checked = check_run(engine, small("tas"), has_preemption=True)
        assert [told for told in checked.broken if "instead of" in told]


def broken_by(conn: Connection, doctoring: str, unit: object) -> set[str]:
    conn.rollback()
    conn.execute(text(doctoring), {"unit": unit} if ":unit" in doctoring else {})
    broken = {told.partition(":")[0] for told in broken_rules(conn)}
    conn.rollback()
    return broken
