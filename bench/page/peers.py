"""What others publish about themselves, beside what was measured here, each with its conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.results import Figure, Stored

_HEAD = """\
## Beside others

Nobody else's figures below were measured on this machine at the time of this page, and most are of other
work: a pod that is bound is not a group that is admitted. Read them as orders of magnitude, with what stands
beside them; ratios that were measured side by side come after.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """`ours` names a benchmark's figure; `beside` says what that is, where it is not the same thing."""

    name: str
    what: str
    conditions: str
    figure: str
    ours: tuple[str, str]
    beside: str


PEERS: Sequence[Peer] = (
    Peer(
        name="Kueue",
        what="its performance suite, baseline: 15,000 workloads, 30 queues; from the first to the last",
        conditions="published mean of 5 runs, client capped at 50 requests a second; and, in parentheses, its"
        " own runner without that cap on 2 cores and 24 GiB, beside its API server and etcd",
        figure="351 s (299 s); without any overhead it would be 67.3 s",
        ours=("suite-baseline", "wall"),
        beside="the same workload through the whole stack, preemption as there",
    ),
    Peer(
        name="Kueue",
        what="the same, topology-aware: 15,000 workloads on 640 nodes",
        conditions="as above, 10 runs",
        figure="401 s (331 s); bound 67.3 s",
        ours=("suite-tas", "wall"),
        beside="the same workload, preemption as there",
    ),
    Peer(
        name="Kueue",
        what="the same, large-scale: 50,000 workloads, 1,000 queues",
        conditions="as above, 19 runs; without the cap its runner lost 17,461 events",
        figure="1,179 s (965 s); bound 4.7 s",
        ours=("suite-large-scale", "wall"),
        beside="the same workload, preemption as there",
    ),
    Peer(
        name="kube-scheduler",
        what="SchedulingBasic: 10,000 pods on 5,000 nodes with 1,000 pods before",
        conditions="the least that its own test accepts, on the project's test machines; one pod at a time",
        figure="680 pods/s",
        ours=("cycle", "admitting 1000, median"),
        beside="one cycle that admits 1,000 groups on 1,000 nodes and has written both stores",
    ),
    Peer(
        name="KAI Scheduler",
        what="4,000 jobs of one GPU fill 500 simulated nodes with 8 GPUs",
        conditions="sample result in its repository; 5 real control nodes",
        figure="398 to 461 s, 8.7 to 10.1 pods/s",
        ours=("cycle", "admitting 1000, median"),
        beside="the same cycle",
    ),
    Peer(
        name="KAI Scheduler",
        what="reclaim for large jobs, 500 and 1,000 nodes, in the process alone",
        conditions="Go benchmark in its repository, Core Ultra 7 165H; the 500-node case was 1.4-1.6 s later",
        figure="9.2 and 76 s",
        ours=("crowd", "warm cycle, median"),
        beside="a warm cycle with preemption and reclaim on 10,000 nodes, 100,000 groups waiting, stores too",
    ),
    Peer(
        name="YuniKorn",
        what="50,000 pods on 2,000 and 4,000 nodes",
        conditions="its documentation; Kubemark, the default scheduler beside it 49 and 48",
        figure="204 and 115 pods/s; its own allocation alone about 410/s",
        ours=("turnover", "handovers"),
        beside="groups a second handed over on 200 GPUs, at the rate at which they were submitted",
    ),
    Peer(
        name="Volcano",
        what="10,000 jobs of one pod",
        conditions="its documentation; kind on 8 cores and 15 GB, with and without webhooks",
        figure="40 and 56 pods/s",
        ours=("local", "groups"),
        beside="real processes of /bin/true, from the submission to the recorded end",
    ),
    Peer(
        name="Slurm",
        what="simple batch jobs, sustained",
        conditions="its guide to high throughput; bursts are higher",
        figure="500 jobs/s",
        ours=("submit", "single submits"),
        beside="groups submitted one by one over HTTP, each its own durable commit",
    ),
    Peer(
        name="Armada",
        what="jobs scheduled, as shipped",
        conditions="limits of its configuration: a round each 10 s, 100 jobs a second and bursts of 1,000",
        figure="100 jobs/s",
        ours=("submit", "groups in batches"),
        beside="groups submitted in batches of 1,000; no limit is configured",
    ),
)

#: Figures that are ratios of two things measured in turns, in one run.
_SIDE_BY_SIDE: Sequence[tuple[str, str, str]] = (
    ("submit", "single submits to bare handler", "submits a second to calls of a bare handler a second"),
    ("history", "submit, long past to fresh", "a submit after a million groups, to an empty database's"),
    ("history", "feed, long past to fresh", "what changed, read after a million groups"),
    ("history", "commit, long past to fresh", "a cycle's commit after a million groups"),
    ("history", "observe, long past to fresh", "recorded starts and ends after a million groups"),
    ("crowd", "warm cycle, 100,000 waiting to 10,000", "a warm cycle when ten times as many wait"),
)


def peers_section(found: Sequence[Stored]) -> Iterator[str]:
    """Lines of Markdown. What has not been measured says so."""
    figures = {(each.result.name, figure.name): figure for each in found for figure in each.result.figures}
    yield _HEAD
    yield "| who | what | conditions | theirs | Muster, here | what that is |"
    yield "|---|---|---|---:|---:|---|"
    for peer in PEERS:
        ours = _told(figures, peer.ours)
        yield f"| {peer.name} | {peer.what} | {peer.conditions} | {peer.figure} | {ours} | {peer.beside} |"
    yield "\n### Ratios, measured side by side in one run\n"
    yield "| benchmark | what | ratio |"
    yield "|---|---|---:|"
    for benchmark, name, what in _SIDE_BY_SIDE:
        yield f"| `{benchmark}` | {what} | {_told(figures, (benchmark, name))} |"
    yield ""


def _told(figures: Mapping[tuple[str, str], Figure], key: tuple[str, str]) -> str:
    figure = figures.get(key)
    if figure is None:
        return "not measured yet"
    return f"{figure.value:g}" if figure.unit == "ratio" else f"{figure.value:g} {figure.unit}"
