"""A run as the results of benchmarks are stored and shown, and as one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bench.machine import Machine
from bench.profiling import Profile
from bench.results import Figure, Result, milliseconds, quantile
from bench.suite.drive import CONNECTIONS, MOST_IN_A_BATCH, Driven
from bench.suite.measures import Handover, Measures
from bench.suite.peers import PEERS
from bench.suite.virtual import Decided
from bench.suite.workloads import Workload

_LIMIT_OF_WALL: Mapping[tuple[str, bool], float] = {
    ("baseline", False): 72,
    ("tas", False): 75,
    ("baseline", True): 90,
    ("tas", True): 90,
    ("large-scale", True): 15,
    ("large-scale", False): 15,
}
_LONGEST_VIRTUAL_SECONDS = 8.0
_LEFT = (
    "What is left above the bound is the time between the end of a group and the start of who takes its"
    " place: a pass of the dispatcher records the end, a cycle reads it, decides, reserves and commits, and"
    " a pass launches. With preemption, what was stopped is done again."
)
_LEFT_OF_WAVES = (
    "Groups come and end in waves of hundreds and thousands, so it is the work per group that counts: the"
    " API, PostgreSQL, the cycle and the dispatcher each see every group, and share the cores."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """`cpu`: seconds by process of the stack. `broken`: rules that it did not keep."""

    workload: Workload
    has_preemption: bool
    is_whole: bool
    measures: Measures
    broken: tuple[str, ...]
    driven: Driven
    cpu: Mapping[str, float]


def json_line(ran: Ran, machine: Machine) -> str:
    measures = ran.measures
    return msgspec.json.encode(
        {
            "suite": ran.workload.name,
            "preemption": "on" if ran.has_preemption else "off",
            "wall_seconds": round(measures.wall_seconds, 2),
            "useful_usage_percent": round(measures.useful_percent, 1),
            "time_to_admission_ms": {
                name: round(each) for name, each in sorted(measures.admission_ms.items())
            },
            "evictions": measures.evictions,
            "machine": machine,
        }
    ).decode()


def told_of(measures: Measures) -> Mapping[str, str]:
    """As the table beside the peer has it."""
    admission = sorted(measures.admission_ms.items())
    return {
        "wall": f"{measures.wall_seconds:.1f}",
        "usage": f"{measures.useful_percent:.1f}",
        "admission": ", ".join(f"{name} {each / 1000:.1f}" for name, each in admission),
    }


def result_of(ran: Ran, profile: Profile | None = None) -> Result:
    workload, measures = ran.workload, ran.measures
    return Result(
        name=f"suite-{workload.name}" + ("" if ran.has_preemption else "-no-preemption"),
        title=f"Kueue's suite, {workload.name}, preemption {'on' if ran.has_preemption else 'off'}",
        reading=_reading(workload),
        parameters={
            "groups": workload.groups,
            "queues": workload.cohorts * workload.queues,
            "nodes": workload.nodes,
            "preemption": "on" if ran.has_preemption else "off",
            "connections": CONNECTIONS,
            "most_in_a_batch": MOST_IN_A_BATCH,
        },
        figures=list(_figures(ran)),
        parts=[
            *_handover_parts(measures.handovers),
            milliseconds("due to answered, p95", quantile(ran.driven.late_seconds, 0.95)),
            milliseconds("due to answered, longest", max(ran.driven.late_seconds)),
            *_cpu_parts(ran),
            *(profile.parts() if profile is not None else ()),
        ],
        limit=_LEFT_OF_WAVES if workload.name == "large-scale" else _LEFT,
    )


def _reading(workload: Workload) -> str:
    peer = PEERS[workload.name]
    return (
        f"The workload of Kueue's scheduler performance suite, regenerated: {workload.groups} groups of CPUs"
        f" in {workload.cohorts * workload.queues} queues of {workload.cohorts} cohorts on {workload.nodes}"
        f" nodes with {workload.node_cpus} CPUs, through the whole stack as shipped, in real time, with a"
        " simulated launcher. What is due at one instant is submitted as one batch over HTTP. A checker"
        " computes the figures and whether every rule held at each instant from PostgreSQL alone. Wall is"
        " from the first submission to the last end; useful usage is request times runtime of every group,"
        f" over nominal quota times wall. Kueue's published mean is {peer.published:g} s"
        f" (usage {peer.published_usage_percent:g} %, its client asks at most 50 times a second),"
        f" {peer.here:g} s on 2 cores without that cap (useful usage {peer.here_usage_percent:g} %); without"
        f" any overhead it would be {peer.bound:g} s. End to start: from the last end that a group's CPUs"
        " had to wait for, in its cohort, to its start, of groups that waited."
    )


def _figures(ran: Ran) -> Sequence[Figure]:
    measures, workload = ran.measures, ran.workload
    started = [each.started for each in measures.handovers]
    is_baseline = ran.is_whole and workload.name == "baseline" and not ran.has_preemption
    wall_limit = _LIMIT_OF_WALL[workload.name, ran.has_preemption] if ran.is_whole else None
    return [
        Figure(name="wall", value=round(measures.wall_seconds, 2), unit="s", at_most=wall_limit),
        Figure(
            name="useful usage",
            value=round(measures.useful_percent, 1),
            unit="%",
            at_least=92 if is_baseline else None,
        ),
        milliseconds("end to start, p50", quantile(started, 0.5)),
        milliseconds("end to start, p95", quantile(started, 0.95), at_most=40 if is_baseline else None),
        *(
            Figure(name=f"to admission, {name}, mean", value=round(each), unit="ms")
            for name, each in sorted(measures.admission_ms.items())
        ),
        Figure(name="evictions", value=measures.evictions, unit="groups"),
    ]


def _handover_parts(handovers: Sequence[Handover]) -> list[Figure]:
    parts = {
        "end to recorded end": [each.recorded for each in handovers],
        "recorded end to admission": [each.admitted for each in handovers],
        "admission to start": [each.started - each.admitted - each.recorded for each in handovers],
    }
    return [
        milliseconds(f"{name}, {label}", quantile(values, share))
        for name, values in parts.items()
        for label, share in (("p50", 0.5), ("p95", 0.95))
    ]


def _cpu_parts(ran: Ran) -> list[Figure]:
    groups = ran.workload.groups
    return [
        Figure(name=f"CPU of {name}", value=round(1e6 * used / groups), unit="µs a group")
        for name, used in sorted(ran.cpu.items(), key=lambda entry: -entry[1])
    ]


def virtual_result(workload: Workload, decided: Decided, *, has_preemption: bool, is_whole: bool) -> Result:
    limit = _LONGEST_VIRTUAL_SECONDS if is_whole and workload.name == "large-scale" else None
    return Result(
        name=f"suite-{workload.name}-virtual" + ("" if has_preemption else "-no-preemption"),
        title=f"Kueue's suite, {workload.name}, the decision alone",
        reading=(
            "The same groups on a virtual clock around the real World and the real cycle, without stores,"
            " processes or waiting; one cycle for each instant at which anything happens."
        ),
        parameters={"groups": workload.groups, "preemption": "on" if has_preemption else "off"},
        figures=[
            Figure(name="whole replay", value=round(decided.seconds, 2), unit="s", at_most=limit),
            Figure(name="CPU", value=round(decided.cpu_seconds, 2), unit="s"),
            Figure(name="cycles", value=decided.cycles, unit="cycles"),
            Figure(name="evictions", value=decided.evictions, unit="groups"),
            Figure(name="makespan of the virtual clock", value=round(decided.makespan_seconds, 2), unit="s"),
        ],
        limit="Each admission is placed in Python, and each queue from which something left is listed anew.",
    )
