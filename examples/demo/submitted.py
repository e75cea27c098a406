"""What is submitted, the same for both parts: two gangs and four tasks, together, on one node."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

GPUS = 8
NODES = f"1x{GPUS}xH100-80GB"
RANKS = 6
TASKS = 4
STEPS = 30
STEP_SECONDS = 0.2
TASK_SECONDS = 1.5

GANGS = ("A", "B")
#: The one independent group of all tasks.
TASK_GROUP = "tasks"
ALL = (*GANGS, TASK_GROUP)

TRAINING = Path(__file__).parent.parent / "allreduce_train.py"


def bodies(folder: Path) -> list[dict[str, Any]]:
    """The groups as they are sent to the API, in one batch. Their processes start in `folder`."""
    return [*(_gang(name, folder) for name in GANGS), _tasks(folder)]


def _gang(name: str, folder: Path) -> dict[str, Any]:
    """A rigid gang: six ranks of a synchronous training, which cannot take a step with five."""
    arguments = ["--steps", str(STEPS), "--step-seconds", str(STEP_SECONDS)]
    return {
        "name": name,
        "scheduling": "gang",
        "roles": [
            {
                "name": "worker",
                "count": RANKS,
                "min_count": RANKS,
                "requests": {"gpus": 1, "cpus": 1, "memory_gib": 1},
                "command": [sys.executable, str(TRAINING), *arguments],
                "workdir": str(folder),
            }
        ],
        "recovery": {"on_member_loss": "fail"},
        "time_limit": "2m",
        "checkpoint": {"grace": "2s"},
    }


def _tasks(folder: Path) -> dict[str, Any]:
    """Tasks that do not need each other."""
    script = f'echo "task $RANK on GPU $CUDA_VISIBLE_DEVICES"; sleep {TASK_SECONDS}; echo "task $RANK done"'
    return {
        "name": TASK_GROUP,
        "scheduling": "independent",
        "members": TASKS,
        "gpus": 1,
        "command": ["sh", "-c", script],
        "workdir": str(folder),
        "time_limit": "2m",
        "checkpoint": {"grace": "2s"},
    }
