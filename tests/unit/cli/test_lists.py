"""The table of `muster list`, at whatever width."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from service.cli.commands.list import _COLUMNS, _cells
from service.cli.printer import make_table
from service.client.groups import GroupBrief

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MIXED = {"Pending": 12, "Admitted": 1, "Running": 3}


def brief(name: str, queue: str, *, units: dict[str, int]) -> GroupBrief:
    return GroupBrief(
        id="0192f0c1-2345-7000-8000-0123456789ab",
        name=name,
        queue=queue,
        tenant="default",
        owner="ada",
        priority=0,
        scheduling="independent",
        status="Running",
        units=units,
        is_waiting=False,
        position=None,
        wanted_members=sum(units.values()),
        wanted_gpus=sum(units.values()),
        size=None,
        attempt=None,
        submitted_at=NOON - timedelta(minutes=12, seconds=30),
        admitted_at=NOON - timedelta(minutes=2, seconds=10),
        ended_at=None,
        cause=None,
        message=None,
        labels={},
    )


def shown(*groups: GroupBrief, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(make_table(_COLUMNS, [_cells(group, NOON, width=width) for group in groups]))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("queue", ["default", "a-queue-with-a-very-long-name"])
def test_a_group_in_many_statuses_leaves_room_for_names(queue: str) -> None:
    groups = (brief("sweep-of-rates", queue, units=MIXED), brief("trainings", queue, units={"Running": 8}))
    lines = shown(*groups, width=80)
    assert len(lines) == 3
    assert "sweep-o" in lines[1]
    assert "trainin" in lines[2]
    assert " 3/16 " in lines[1]
    assert all(line.endswith("10m 20s  2m 10s") for line in lines[1:])


def test_a_wide_terminal_tells_each_status() -> None:
    [_, line] = shown(brief("sweep-of-rates", "default", units=MIXED), width=160)
    assert "12 Pending 1 Admitted 3 Running" in line
    assert "sweep-of-rates" in line
