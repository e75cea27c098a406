"""docker-compose.yml and Dockerfile as Docker reads them, as far as the tests need it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "api", "worker", "dispatcher", "ticker")
#: What runs until it is stopped.
LASTING = tuple(name for name in OURS if name != "migrate")
#: What a person puts into .env, here in the place of compose's own substitution.
FILLED_IN = {"POSTGRES_PASSWORD": "pw", "MUSTER_API_KEY": "k" * 40, "MUSTER_SECRET_KEY": "A" * 43 + "="}

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DEFAULT_GRACE = "10s"


def substituted(text: str) -> str:
    """`${NAME:?why}` and `${NAME:-default}` as compose reads them."""

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        return FILLED_IN.get(name, default or "")

    return re.sub(r"\$\{(?P<name>\w+)(?::\?[^}]*|:-(?P<default>[^}]*))\}", value, text)


def environment(service: str) -> dict[str, str]:
    return {name: substituted(str(value)) for name, value in SERVICES[service].get("environment", {}).items()}


def seconds(text: str) -> float:
    """A duration such as `1m30s`."""
    assert re.fullmatch(r"(\d+(us|ms|s|m|h))+", text), text
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(us|ms|s|m|h)", text))


def grace_seconds(service: str) -> float:
    return seconds(SERVICES[service].get("stop_grace_period", _DEFAULT_GRACE))


@dataclass(frozen=True, kw_only=True)
class HealthCheck:
    """`command` is executed as it is, without a shell."""

    command: list[str]
    interval: float
    timeout: float
    retries: int
    start_period: float

    @classmethod
    def of(cls, service: str) -> HealthCheck:
        told = SERVICES[service]["healthcheck"]
        assert told.keys() <= {"test", "interval", "timeout", "retries", "start_period"}
        kind, *command = told["test"]
        assert kind == "CMD"
        return cls(
            command=command,
            interval=seconds(told["interval"]),
            timeout=seconds(told["timeout"]),
            retries=told["retries"],
            start_period=seconds(told.get("start_period", "0s")),
        )


def image_instructions(name: str) -> list[str]:
    """What follows `name` in the last stage of the Dockerfile, line by line."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    last = re.split(r"^FROM ", text, flags=re.MULTILINE)[-1]
    return [line.removeprefix(f"{name} ") for line in last.splitlines() if line.startswith(f"{name} ")]


def image_environment() -> dict[str, str]:
    pairs = [word.partition("=") for line in image_instructions("ENV") for word in shlex.split(line)]
    return {name: value for name, _, value in pairs}
