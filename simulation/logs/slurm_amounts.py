"""What Slurm writes of trackable resources: `cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_GPU = "gres/gpu"
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?\Z")
_MIB = {"": 1.0, "K": 2**-10, "M": 1.0, "G": 2**10, "T": 2**20, "P": 2**30}
_MOST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`model` None: none is named, or several are."""

    gpus: int = 0
    model: str | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    nodes: int | None = None


def asked_of(text: str) -> Asked:
    """Raises ValueError."""
    amounts = dict(_parts(text))
    typed = {name.removeprefix(f"{_GPU}:"): value for name, value in amounts.items() if _is_typed(name)}
    gpus = _count(amounts[_GPU]) if _GPU in amounts else sum(map(_count, typed.values()))
    used = [model for model, value in typed.items() if _count(value)]
    return Asked(
        gpus=gpus,
        model=used[0] if len(used) == 1 else None,
        cpus=float(_count(amounts["cpu"])) if "cpu" in amounts else None,
        memory_mib=_memory(amounts["mem"]) if "mem" in amounts else None,
        nodes=_count(amounts["node"]) if "node" in amounts else None,
    )


def _is_typed(name: str) -> bool:
    return name.startswith(f"{_GPU}:")


def _parts(text: str) -> list[tuple[str, str]]:
    found = []
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError("is no list of resources such as cpu=8,gres/gpu=4")
        found.append((name.strip(), value.strip()))
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST:
        raise ValueError(f"has the amount {text[:30]!r}, which is no whole number")
    return int(text)


def _memory(text: str) -> int:
    if (found := _MEMORY.match(text)) is None:
        raise ValueError(f"has the memory {text[:30]!r}, which is no amount such as 64G")
    return math.ceil(float(found[1]) * _MIB[found[2]])
