"""One workload of the peer through every process of the stack, in real time, and checked."""

from __future__ import annotations

from sqlalchemy import Engine, create_engine, text

from bench.cpu import CpuMeter
from bench.http_load import Target
from bench.profiling import Profile, profiled_stack
from bench.servers import require_fsync, short_folder, whole_stack
from bench.suite.check import check_run
from bench.suite.drive import batches_of, submit_all
from bench.suite.result import Ran
from bench.suite.site import LEVELS, declared_nodes, policy_of
from bench.suite.workloads import WORKLOADS, Workload
from bench.waiting import wait_for
from workers.stack import Stack

#: A run that takes so long has gone wrong.
_LONGEST_SECONDS = 600.0


def run_suite(workload: Workload, *, has_preemption: bool, profile: Profile | None = None) -> Ran:
    """On a stack of its own; `profile` is filled if it is given."""
    nodes, levels = declared_nodes(workload), LEVELS if workload.racks else "host"
    with short_folder() as folder:
        made = (
            whole_stack(folder, nodes=nodes, launcher="simulated", levels=levels)
            if profile is None
            else profiled_stack(folder, profile, nodes=nodes, launcher="simulated", levels=levels)
        )
        with made as stack:
            return run_on(stack, workload, has_preemption=has_preemption)


def run_on(stack: Stack, workload: Workload, *, has_preemption: bool) -> Ran:
    """On a stack with the workload's nodes and nothing else."""
    engine = create_engine(stack.parts.postgres.url)
    try:
        # 1. The site, and all that will be sent.
        require_fsync(engine)
        with stack.client() as client:
            client.policy.apply(policy_of(workload, has_preemption=has_preemption))
            key = client.address.key or ""
        batches = batches_of(workload)
        target = Target(port=int(stack.url.rpartition(":")[2]), path="/v1/groups/batch", key=key)
        # 2. In real time, until the last group has ended.
        meter = CpuMeter(stack)
        driven = submit_all(target, batches)
        wait_for(lambda: _is_over(engine), "every group has ended", seconds=_LONGEST_SECONDS, pause=0.5)
        cpu = meter.seconds()
        # 3. What it came to.
        checked = check_run(engine, workload, has_preemption=has_preemption)
        return Ran(
            workload=workload,
            has_preemption=has_preemption,
            is_whole=workload == WORKLOADS[workload.name],
            measures=checked.measures,
            broken=checked.broken,
            driven=driven,
            cpu=cpu,
        )
    finally:
        engine.dispose()


def _is_over(engine: Engine) -> bool:
    with engine.connect() as conn:
        return not conn.execute(
            text("SELECT EXISTS (SELECT FROM units WHERE ended_at IS NULL) /* bench */")
        ).scalar_one()
