"""Amounts by resource at the command line: `H100-80GB=8`, `cpus=64`, `memory_gib=512`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import rich_click as click

from service.cli.spans import number

#: Resources that are not flavors, and GPUs for which a group names no model.
NAMES = {"cpus": "CPUs", "memory_gib": "GiB", "*": "GPUs of any model"}


def read_amounts(texts: Sequence[str], option: str) -> dict[str, float] | None:
    """`none` alone is None."""
    if list(texts) == ["none"]:
        return None
    amounts: dict[str, float] = {}
    for text in texts:
        name, amount = _read_amount(text)
        if amount is None:
            raise click.BadParameter(f"{text!r} is not NAME=AMOUNT", param_hint=f"--{option}")
        if name in amounts:
            raise click.BadParameter(f"{name} is there twice", param_hint=f"--{option}")
        amounts[name] = amount
    return amounts


def _read_amount(text: str) -> tuple[str, float | None]:
    name, _, said = text.partition("=")
    try:
        amount = float(said)
    except ValueError:
        return name, None
    return name, amount if name and name == name.strip() and amount >= 0 else None


def show_amount(amounts: Mapping[str, float], name: str) -> str:
    return number(amounts[name]) if amounts.get(name) else "-"


def show_bound(amounts: Mapping[str, float] | None, name: str) -> str:
    """A quota or limit of 0 is one."""
    if amounts is None:
        return "none"
    return number(amounts[name]) if name in amounts else "-"


def list_used(amounts: Mapping[str, float]) -> str:
    """Amounts that are not zero, in one line."""
    return list_bounds({name: amount for name, amount in amounts.items() if amount})


def list_bounds(amounts: Mapping[str, float]) -> str:
    """All amounts in one line."""
    return ", ".join(f"{number(amounts[name])} {NAMES.get(name, name)}" for name in ordered(amounts)) or "-"


def list_limit(amounts: Mapping[str, float], otherwise: str = "no limit") -> str:
    return list_bounds(amounts) if amounts else otherwise


def ordered(names: Iterable[str]) -> list[str]:
    """CPUs and memory last."""
    return sorted(names, key=lambda name: (name in NAMES, name))
