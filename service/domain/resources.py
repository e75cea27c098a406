"""Quantities: what a member asks for on one node, and what a queue may hold."""

from __future__ import annotations

from dataclasses import dataclass

#: Resource names of quotas that are not GPU flavors. A flavor may not take these names.
CPUS = "cpus"
MEMORY = "memory"
#: So much of what is counted makes one CPU, or one GiB.
_PER_UNIT = {CPUS: 1000, MEMORY: 1024}

MAX_GPUS_PER_MEMBER = 1024
MAX_CPUS_MILLI = 10_000_000
MAX_MEMORY_MIB = 1024 * 1024 * 1024
MAX_QUOTA = 1_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one member needs on one node: whole GPUs, thousandths of a CPU, MiB of memory."""

    gpus: int = 0
    cpus_milli: int = 0
    memory_mib: int = 0

    def times(self, count: int) -> Resources:
        return Resources(
            gpus=self.gpus * count,
            cpus_milli=self.cpus_milli * count,
            memory_mib=self.memory_mib * count,
        )

    def plus(self, other: Resources) -> Resources:
        return Resources(
            gpus=self.gpus + other.gpus,
            cpus_milli=self.cpus_milli + other.cpus_milli,
            memory_mib=self.memory_mib + other.memory_mib,
        )


def wire_name(resource: str) -> str:
    """What people call it: memory goes by its unit."""
    return "memory_gib" if resource == MEMORY else resource


def shown_amount(resource: str, amount: int) -> str:
    """In the unit in which people give it: GPUs, CPUs, GiB."""
    return f"{amount / _PER_UNIT.get(resource, 1):.15g}"
