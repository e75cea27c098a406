"""Is the process of this machine or container well? Judged by its last sign of life."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from service.settings import Settings
from workers.heartbeat import Beat, read_beats, runtime_folder


@dataclass(frozen=True, slots=True)
class Verdict:
    """`line` says why, in one line."""

    is_well: bool
    line: str


def check(settings: Settings, kind: str) -> Verdict:
    """All processes of a kind that run here are looked at; one that is not well is enough."""
    beats = read_beats(runtime_folder(settings), kind)
    return judge_beats(kind, beats, now=time.monotonic(), limit_seconds=settings.health_seconds)


def judge_beats(kind: str, beats: Sequence[Beat], *, now: float, limit_seconds: float) -> Verdict:
    """`now` is the machine's monotonic clock."""
    if not beats:
        return Verdict(is_well=False, line=f"no {kind} runs here")
    verdicts = [_judge(kind, beat, now=now, limit_seconds=limit_seconds) for beat in beats]
    return next((verdict for verdict in verdicts if not verdict.is_well), verdicts[0])


def _judge(kind: str, beat: Beat, *, now: float, limit_seconds: float) -> Verdict:
    age = now - beat.beat_at
    who = f"{kind} (pid {beat.pid})"
    if age > limit_seconds:
        return Verdict(
            is_well=False, line=f"{who} has given no sign of life for {age:.0f} s; its last: {beat.doing}"
        )
    return Verdict(is_well=beat.is_well, line=f"{who} {beat.doing}")
