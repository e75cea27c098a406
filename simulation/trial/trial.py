"""One policy tried on one log."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from simulation.groups import Spread, jobs_of, layout_of
from simulation.job import Job
from simulation.logs.limits import with_made_limits
from simulation.logs.log import LeftOut, Log, Reason
from simulation.logs.reading import Format, read_log
from simulation.measures.measures import Measures, measure
from simulation.replay.progress import Progress
from simulation.replay.run import replay
from simulation.sites.making import read_site
from simulation.sites.site import SiteWrong


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be replayed on what. `wrong_limits`: the range of factors to make time limits with."""

    log: Path
    log_format: Format | None
    spec: Path | None
    cluster: Path
    spread: Spread
    wrong_limits: tuple[float, float] | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class Trial:
    """`left_out`: rows that the site does not take under this policy."""

    measures: Measures
    left_out: tuple[Reason, ...]
    nodes: int
    gpus: int
    outages: int


def presets() -> list[str]:
    """The policies that come along, by name."""
    found = files("simulation").joinpath("presets").iterdir()
    return sorted(each.name.removesuffix(".yaml") for each in found)


def policy_file(policy: str) -> Path:
    """The file of a policy: one that is there, else that of a preset. Raises SiteWrong."""
    if Path(policy).is_file():
        return Path(policy)
    if policy in presets():
        return Path(str(files("simulation").joinpath("presets", f"{policy}.yaml")))
    raise SiteWrong(f"{policy} is no file, and no policy that comes along: {', '.join(presets())}")


def load_log(question: Question) -> Log:
    """Raises LogWrong."""
    log = read_log(question.log, log_format=question.log_format, spec=question.spec)
    if question.wrong_limits is None:
        return log
    return with_made_limits(log, question.wrong_limits, question.seed)


def run_trial(
    question: Question, policy: str, log: Log, *, progress: Callable[[Progress], None] | None = None
) -> Trial:
    """Raises SiteWrong, or NothingToReplay."""
    site = read_site(question.cluster, policy_file(policy))
    left_out = LeftOut()
    numbers = array("q")
    jobs = jobs_of(replace(log, left_out=left_out), site, layout_of(site, spread=question.spread))
    outcome = replay(site, _noted(jobs, numbers), policy=site.name, progress=progress)
    nodes = site.configuration.nodes.values()
    return Trial(
        measures=measure(outcome, site.shares, name_of=lambda number: _name(log, numbers[number])),
        left_out=tuple(left_out),
        nodes=len(nodes),
        gpus=sum(len(node.devices) for node in nodes),
        outages=len(site.outages),
    )


def _noted(jobs: Iterable[Job], numbers: array[int]) -> Iterator[Job]:
    """Which row of the log each replayed job was, from 1."""
    for job in jobs:
        numbers.append(job.group_id)
        yield job


def _name(log: Log, number: int) -> str:
    job = log.jobs[number - 1]
    return f"{job.name or 'a job'} (line {job.line})"
