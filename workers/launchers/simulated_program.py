"""What a simulated member does: it waits, and ends with an exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Of a program that does not understand its arguments.
_USAGE_CODE = 2


class CannotExecute(Exception):
    """The command says that it cannot be executed."""


@dataclass(frozen=True, slots=True)
class Program:
    """`seconds` None: it runs until it is told to stop. It takes `stop_seconds` to stop then."""

    seconds: float | None = None
    exit_code: int = 0
    stop_seconds: float = 0.0


def program_of(command: Sequence[str], env: Mapping[str, str]) -> Program:
    """What this command does. Only `simulate` is understood; any other one runs as `env` says."""
    seconds, code = env.get("MUSTER_SIM_SECONDS"), env.get("MUSTER_SIM_EXIT_CODE", "0")
    stopping = "0"
    if command and command[0] == "simulate":
        arguments = list(command[1:])
        if "--cannot-execute" in arguments:
            raise CannotExecute("No such file or directory")
        while len(arguments) >= 2:
            name, value, *arguments = arguments
            if name == "--seconds":
                seconds = value
            elif name == "--exit-code":
                code = value
            elif name == "--stop-seconds":
                stopping = value
    try:
        length = None if seconds is None else max(0.0, float(seconds))
        return Program(length, int(code) & 0xFF, max(0.0, float(stopping)))
    except ValueError:
        return Program(0.0, _USAGE_CODE)
