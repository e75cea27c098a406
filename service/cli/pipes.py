"""A pipe whose reader has gone, as `head` does when it has enough."""

from __future__ import annotations

import os
from typing import TextIO


def write_line(stream: TextIO, text: str, *, is_flushed: bool = False) -> None:
    """Print a line. Without a reader nothing is printed, and the command goes on: what it does and its
    exit code do not hang on who reads."""
    try:
        print(text, file=stream, flush=is_flushed)
    except BrokenPipeError:
        silence(stream)


def flush(stream: TextIO) -> None:
    """Let out what is held back, if anybody reads it."""
    try:
        stream.flush()
    except BrokenPipeError:
        silence(stream)


def silence(stream: TextIO) -> None:
    """From now on what is written to `stream` goes nowhere, also at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
