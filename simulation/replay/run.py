"""A log replayed on a site: from its first submission until nothing is left to happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from simulation.job import Job
from simulation.outcome.outcome import Outcome
from simulation.replay.loop import Simulation
from simulation.replay.progress import Progress
from simulation.replay.recorder import Recorder
from simulation.sites.site import NodeEvent, Site


class NothingToReplay(ValueError):
    """No job of the log can be replayed on the site."""


def replay(
    site: Site,
    jobs: Iterable[Job],
    *,
    events: Iterable[NodeEvent] = (),
    policy: str = "",
    progress: Callable[[Progress], None] | None = None,
    report_every: int = 256,
    histories: int = 3,
) -> Outcome:
    """What the real cycle makes of these jobs, which come in the order of their submission and are read one
    by one; deterministic.

    `events`: of nodes, besides the outages of the site. `policy`: how the outcome calls the site's policy.
    `progress` is told every `report_every` cycles.
    `histories`: of so many of the groups that wait longest the reasons are told. Raises NothingToReplay
    without a job. What can never end, for it never fits or nobody releases it, waits when all else is over.
    """
    began = time.process_time()
    stream = iter(jobs)
    first = next(stream, None)
    if first is None:
        raise NothingToReplay("no job can be replayed on this site")
    start_at = first.row.submitted_at
    simulation = Simulation(site.configuration, start_at=start_at, policy=site.policy)
    simulation.feed(chain((first,), stream))
    for event in (*site.events(start_at), *events):
        simulation.turn((event.node_id,), event.at, is_up=event.is_up)
    recorder = Recorder(
        simulation,
        start_at=start_at,
        guard_seconds=site.policy.guard_seconds,
        restart_cost_seconds=site.policy.restart_cost_seconds,
        kept=histories,
    )
    for reached in _recorded(simulation, recorder):
        if progress is not None and recorder.cycles % report_every == 0:
            progress(reached)
    return recorder.outcome(site=site.name, policy=policy, cpu_seconds=time.process_time() - began)


def _recorded(simulation: Simulation, recorder: Recorder) -> Iterator[Progress]:
    for moment in simulation.run():
        recorder.note(moment)
        yield Progress(
            now=moment.now,
            submitted=recorder.submitted,
            ended=recorder.ended,
            waiting=len(simulation.world.pending),
            cycles=recorder.cycles,
        )
