"""The rich style of a status, and of what needs a look."""

from __future__ import annotations

from service.cli.printer import Cell
from service.domain.status import ENDED, Status

_STYLES = {
    Status.PENDING: "yellow",
    Status.ADMITTED: "cyan",
    Status.STARTING: "cyan",
    Status.RUNNING: "green",
    Status.RECOVERING: "magenta",
    Status.EVICTING: "magenta",
    Status.SUCCEEDED: "dim green",
    Status.FAILED: "bold red",
    Status.CANCELLED: "dim",
}


def status_cell(status: str | None) -> Cell:
    """A status with its colour; a status of a newer server has none."""
    if status is None:
        return ""
    return status, _STYLES.get(Status(status), "") if status in set(Status) else ""


def has_ended(status: str) -> bool:
    return status in ENDED
