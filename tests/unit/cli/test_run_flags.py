"""`muster run`: the group that the flags describe."""

from __future__ import annotations

from typing import Any

import pytest
import rich_click as click

from service.cli.commands.run import group_of
from service.cli.queue_options import QUEUE, fields_of

NOTHING: dict[str, Any] = {
    "name": None,
    "members": 1,
    "gpus": 0,
    "cpus": None,
    "memory_gib": None,
    "models": (),
    "fallback_after": None,
    "independent": False,
    "queue": None,
    "priority": None,
    "after": (),
    "not_before": None,
    "time_limit": None,
    "max_restarts": None,
    "env": (),
    "secret": (),
    "workdir": None,
    "command": ("/usr/bin/python3", "train.py"),
}


def test_what_is_not_said_is_left_to_the_server() -> None:
    assert group_of(NOTHING, {}) == {
        "name": "python3",
        "members": 1,
        "gpus": 0,
        "command": ["/usr/bin/python3", "train.py"],
    }


def test_everything_that_is_said_is_sent() -> None:
    said = {
        "name": "sft",
        "members": 6,
        "gpus": 1,
        "cpus": 8.0,
        "memory_gib": 64.0,
        "models": ("H100-80GB", "A100-80GB"),
        "fallback_after": "30m",
        "independent": True,
        "queue": "research",
        "priority": "-5",
        "time_limit": "4h",
        "max_restarts": 0,
        "env": ("LR=1e-4", "EMPTY=", "HERE"),
        "secret": ("TOKEN",),
        "workdir": "/data",
    }
    assert group_of(NOTHING | said, {"HERE": "here", "TOKEN": "t"}) == {
        "name": "sft",
        "members": 6,
        "gpus": 1,
        "cpus": 8.0,
        "memory_gib": 64.0,
        "gpu": {"models": ["H100-80GB", "A100-80GB"], "fallback_after": "30m"},
        "scheduling": "independent",
        "queue": "research",
        "priority": -5,
        "time_limit": "4h",
        "recovery": {"max_restarts": 0},
        "env": {"LR": "1e-4", "EMPTY": "", "HERE": "here"},
        "secrets": {"TOKEN": "t"},
        "workdir": "/data",
        "command": ["/usr/bin/python3", "train.py"],
    }


def test_a_variable_that_is_not_set_here_is_named() -> None:
    with pytest.raises(click.UsageError, match="TOKEN is not set here"):
        group_of(NOTHING | {"secret": ("TOKEN",)}, {})


def test_changes_of_a_queue_are_what_was_said() -> None:
    nothing: dict[str, Any] = {"order": None, "stop": None, "tenant": None, "quota": (), "limit": ()}
    assert fields_of(nothing, QUEUE) == {}
    assert fields_of(
        nothing | {"stop": "hold", "tenant": "", "quota": ("H100-80GB=8", "cpus=64.5")}, QUEUE
    ) == {
        "stop": "hold",
        "tenant": None,
        "nominal_quota": {"H100-80GB": 8.0, "cpus": 64.5},
    }
    assert fields_of(nothing | {"quota": ("none",)}, QUEUE) == {"nominal_quota": None}


@pytest.mark.parametrize("text", ["H100", "=8", "H100=", "H100=x", "H100=-1", "H100=nan"])
def test_an_amount_that_is_none_is_refused(text: str) -> None:
    changes: dict[str, Any] = {"order": None, "stop": None, "tenant": None, "quota": (text,), "limit": ()}
    with pytest.raises(click.BadParameter, match="is not NAME=AMOUNT"):
        fields_of(changes, QUEUE)
