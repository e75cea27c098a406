"""The whole of Muster on one machine: embedded servers and every process, started, watched, stopped."""

from __future__ import annotations

from workers.stack.errors import (
    AlreadyRunning,
    DataFolderUnusable,
    NodesWrong,
    PortTaken,
    SettingsWrong,
    StackFailed,
)
from workers.stack.options import StackOptions
from workers.stack.stack import Stack

__all__ = [
    "AlreadyRunning",
    "DataFolderUnusable",
    "NodesWrong",
    "PortTaken",
    "SettingsWrong",
    "Stack",
    "StackFailed",
    "StackOptions",
]
