"""Options that say what a queue or a cohort is, and what they become for the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import rich_click as click

from service.cli.amounts import read_amounts
from service.domain.principal import KeyRole
from service.domain.queue import Filling, Order, OrderBy, PreemptWithin, Reclaim, Stop


class Setting(NamedTuple):
    """An option, the field of the API that it stands for, and how its value is read. One that says nothing
    is None, or empty if it may be given several times."""

    option: str
    field: str
    read: Callable[[Any, str], Any]
    arguments: Mapping[str, Any]


def _amounts(option: str, field: str, text: str) -> Setting:
    return Setting(option, field, read_amounts, {"multiple": True, "metavar": "NAME=AMOUNT", "help": text})


def _choice(option: str, kind: Any, text: str) -> Setting:
    values = click.Choice([each.value for each in kind])
    return Setting(option, option.replace("-", "_"), _same, {"type": values, "help": text})


def _same(value: Any, _: str) -> Any:
    return value


def _or_null(value: str, _: str) -> str | None:
    """Empty, or `none`, takes it away."""
    return None if value in ("", "none") else value


def _names(values: Sequence[str], option: str) -> list[str] | None:
    if "none" in values and len(values) > 1:
        raise click.BadParameter("`none` takes all names away: it stands alone", param_hint=f"--{option}")
    return None if list(values) == ["none"] else list(values)


def _count(value: str, option: str) -> int | None:
    if value == "none":
        return None
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no whole number", param_hint=f"--{option}") from None


def _by_role(values: Sequence[str], option: str) -> dict[str, int] | None:
    if list(values) == ["none"]:
        return None
    pairs = [value.partition("=") for value in values]
    found = {role: _count(number, option) for role, _, number in pairs}
    if len(found) < len(pairs):
        raise click.BadParameter("say each role once", param_hint=f"--{option}")
    roles = [each.value for each in KeyRole]
    for role, number in found.items():
        if role not in roles or number is None:
            raise click.BadParameter(
                f"say ROLE=PRIORITY, where ROLE is {', '.join(roles)}", param_hint=f"--{option}"
            )
    return {role: number for role, number in found.items() if number is not None}


def _duration(option: str, text: str) -> Setting:
    return Setting(option, option.replace("-", "_"), _or_null, {"metavar": "TIME", "help": text})


_WEIGHT = Setting(
    "weight", "weight", _same, {"type": click.FloatRange(0), "help": "Its part of what is shared; 0 is last."}
)
_SHARED = (
    _amounts("borrow", "borrowing_limit", "How much above its quota it may take; `none`: no bound."),
    _amounts("lend", "lending_limit", "How much of its quota others may take; `none`: all."),
)
_QUOTA_HELP = "Nominal quota: H100-80GB=8, cpus=64, memory_gib=512."

QUEUE: tuple[Setting, ...] = (
    _choice("order", Order, "strict stops at a blocked head."),
    _choice("order-by", OrderBy, "Who is first of equal priority: by age, time limit, or both."),
    _choice("stop", Stop, "Admit nothing; drain also evicts."),
    Setting("tenant", "tenant", _or_null, {"help": "Who may submit; empty for everybody."}),
    Setting("cohort", "cohort", _or_null, {"help": "With whom it shares; empty for nobody."}),
    _WEIGHT,
    _amounts("quota", "nominal_quota", f"{_QUOTA_HELP} `none`: no quota at all."),
    *_SHARED,
    _amounts("limit", "limit", "The most that it may hold; `none`: no limit."),
    _amounts("user-limit", "user_limit", "The most that one user may hold in it; `none`: no limit."),
    _amounts("group-limit", "group_limit", "The most that one group may hold; `none`: no limit."),
    Setting(
        "flavor",
        "flavors",
        _names,
        {"multiple": True, "metavar": "MODEL", "help": "GPU models that it may use; `none`: all."},
    ),
    Setting(
        "pool",
        "pools",
        _names,
        {"multiple": True, "metavar": "POOL", "help": "Pools that it may use; `none`: all."},
    ),
    _choice("filling", Filling, "Fill nodes, or spread over them."),
    _choice("preempt-within", PreemptWithin, "Whether groups evict lower ones of this queue."),
    _choice("reclaim", Reclaim, "From whom groups take places back."),
    _duration("min-runtime", "Groups that run are not preempted before."),
    Setting(
        "evictions-per-day",
        "evictions_per_day",
        _count,
        {"metavar": "COUNT", "help": "How often a group may be preempted; `none`: no bound."},
    ),
    Setting(
        "highest-priority",
        "highest_priority",
        _by_role,
        {"multiple": True, "metavar": "ROLE=PRIORITY", "help": "The highest that it may set; `none`: any."},
    ),
    _duration("default-time-limit", "Of groups that name none; `none`: none."),
    _duration("max-time-limit", "The longest that a group may have; `none`: any."),
)

COHORT: tuple[Setting, ...] = (
    Setting("parent", "parent", _or_null, {"help": "The cohort that it is in; empty for none."}),
    _WEIGHT,
    _amounts("quota", "nominal_quota", f"{_QUOTA_HELP} Besides that of its members."),
    *_SHARED,
)


def with_options(settings: Sequence[Setting]) -> Callable[[Any], Any]:
    """Gives a command these options."""

    def decorate(command: Any) -> Any:
        for setting in reversed(settings):
            command = click.option(f"--{setting.option}", **setting.arguments)(command)
        return command

    return decorate


def changes_of(said: Mapping[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """At least one."""
    fields = fields_of(said, settings)
    if not fields:
        raise click.UsageError("say what to change")
    return fields


def fields_of(said: Mapping[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """What was said, as the API names it."""
    found: dict[str, Any] = {}
    for setting in settings:
        value = said.get(setting.option.replace("-", "_"))
        if value is not None and value != ():
            found[setting.field] = setting.read(value, setting.option)
    return found
