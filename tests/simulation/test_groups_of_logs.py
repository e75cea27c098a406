"""Jobs of a log as groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from service.admission.policy import DEFAULT
from service.domain.dependency import When
from service.domain.status import Status
from simulation.groups import Spread, jobs_of, layout_of
from simulation.job import Job
from simulation.logs.job import Ending, LoggedJob
from simulation.logs.log import Log
from simulation.sites.site import Site
from tests.builders import NOW, configuration, node, queue


def logged(line: int, *, gpus: int = 1, at: float = 0.0, runtime: float = 100.0, **more: object) -> LoggedJob:
    submitted_at = NOW + timedelta(seconds=at)
    made = LoggedJob(
        line=line, name=f"j{line}", submitted_at=submitted_at, runtime_seconds=runtime, gpus=gpus, tenant="t"
    )
    return replace(made, **more)  # type: ignore[arg-type]


def site() -> Site:
    config = configuration([node(1, gpus=8), node(2, gpus=4, model="my")], [queue(1)])
    return Site(name="s", configuration=config, policy=DEFAULT, queue_of={"t": 1})


def jobs(*rows: LoggedJob, spread: Spread = Spread.NODES) -> list[Job]:
    where = site()
    return list(jobs_of(Log(name="l", jobs=rows), where, layout_of(where, spread=spread)))


def members(job: Job) -> list[tuple[int, int]]:
    return [(role.count, role.requests.gpus) for role in job.shape.roles]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(logged(1, gpus=1), [(1, 1)], id="one GPU"),
        pytest.param(logged(1, gpus=8), [(1, 8)], id="a whole node"),
        pytest.param(logged(1, gpus=20), [(2, 8), (1, 4)], id="whole nodes and a part of one"),
        pytest.param(logged(1, gpus=16), [(2, 8)], id="whole nodes"),
        pytest.param(logged(1, gpus=6, gpu_model="my"), [(1, 4), (1, 2)], id="nodes of its model"),
        pytest.param(logged(1, gpus=8, nodes=4), [(4, 2)], id="spread as in the log"),
        pytest.param(logged(1, gpus=8, nodes=3), [(2, 3), (1, 2)], id="spread unevenly"),
        pytest.param(logged(1, gpus=0, nodes=2), [(2, 0)], id="no GPU"),
    ],
)
def test_members(row: LoggedJob, expected: list[tuple[int, int]]) -> None:
    assert [members(job) for job in jobs(row)] == [expected]


def test_each_gpu_may_be_a_member() -> None:
    assert members(jobs(logged(1, gpus=20), spread=Spread.GPUS)[0]) == [(20, 1)]


def test_cpus_and_memory_are_shared_as_gpus_are() -> None:
    (job,) = jobs(logged(1, gpus=12, cpus_milli=24_000, memory_mib=1200))
    shares = [(role.requests.cpus_milli, role.requests.memory_mib) for role in job.shape.roles]
    assert shares == [(16_000, 800), (8_000, 400)]


def test_equal_jobs_have_one_shape() -> None:
    first, second, other = jobs(logged(1, gpus=4), logged(2, gpus=4), logged(3, gpus=2))
    assert first.shape is second.shape
    assert first.row.shape_id == second.row.shape_id != other.row.shape_id


def test_who_waited_for_whom_in_the_log() -> None:
    first, second = jobs(logged(1), logged(2, after=("j1", "gone before")))
    assert first.after == ()
    assert second.after == ((first.group_id, When.ANY),)


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending.SUCCEEDED, Status.SUCCEEDED),
        (Ending.UNKNOWN, Status.SUCCEEDED),
        (Ending.FAILED, Status.FAILED),
        (Ending.NODE_FAILED, Status.FAILED),
        (Ending.CANCELLED, Status.CANCELLED),
    ],
)
def test_a_group_ends_as_in_the_log(ending: Ending, status: Status) -> None:
    assert jobs(logged(1, ending=ending))[0].ends_as is status


def test_whose_tenant_has_no_queue_is_counted() -> None:
    log = Log(name="l", jobs=(logged(2), logged(3, tenant="nobody"), logged(4, tenant="nobody")))
    assert [job.group_id for job in jobs_of(log, site())] == [1]
    assert [str(reason) for reason in log.left_out] == [
        "2 left out: no queue takes its tenant (first: line 3)"
    ]
