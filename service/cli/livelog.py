"""The log of a running stack at a terminal: one short line for each event of any process."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from service.cli.printer import plain

#: Said by the name of the process, or of no use to somebody who watches.
_LEFT_OUT = frozenset(
    {"timestamp", "level", "event", "logger", "process", "exception", "stack_info", "request_id"}
)
_STYLES = {"warning": "yellow", "error": "red", "critical": "bold red"}


def short_line(name: str, line: str) -> tuple[str, str] | None:
    """The text of one log line and its rich style; None for lines that are not worth showing.

    What the processes log is one JSON object a line. Anything else is shown as it is, but of a
    traceback only the end.
    """
    fields = _fields(line)
    if fields is None:
        is_shown = line.strip() and not line.startswith((" ", "\t", "Traceback "))
        return (f"{'':8} {name:<10} {plain(line)}", "dim") if is_shown else None
    level = str(fields.get("level", "info")).lower()
    if level == "debug" or (level == "info" and fields.get("event") == "request"):
        return None
    rest = " ".join(f"{key}={value}" for key, value in fields.items() if key not in _LEFT_OUT)
    if fields.get("exception"):
        rest = f"{rest} {str(fields['exception']).strip().splitlines()[-1]}".strip()
    text = (
        f"{_clock(fields.get('timestamp'))} {name:<10} {fields.get('event', '')}{'  ' if rest else ''}{rest}"
    )
    return plain(text), _STYLES.get(level, "")


def _fields(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _clock(timestamp: object) -> str:
    """The time of day here."""
    try:
        return f"{datetime.fromisoformat(str(timestamp)).astimezone():%H:%M:%S}"
    except ValueError:
        return " " * 8
