"""Every key that Muster keeps in Redis."""

from __future__ import annotations

#: Hash: incarnation, epoch, version. The only ledger key whose name never changes (R2, R4).
LEDGER = "muster:ledger"

#: Hash: epoch and cycle of the newest publication; older ones are refused (P1).
VERDICT_FENCE = "muster:verdict:fence"
#: The amounts that many verdicts share, one value.
VERDICT_NUMBERS = "muster:verdict:numbers"


def ledger_part(incarnation: str, part: str) -> str:
    """`models`, `held`, `lost`, `room`, `capacity` or `holds` of one incarnation of the ledger."""
    return f"{LEDGER}:{incarnation}:{part}"


def verdict(queue_id: int) -> str:
    return f"muster:verdict:queue:{queue_id}"


#: Counts wake-ups: whoever has seen a count has seen all that was committed before it (J1).
CYCLES_DIRTY = "muster:cycles:dirty"
#: Set while a job is on its way; the job deletes it before it looks at the count for the last time.
CYCLES_WAKE = "muster:cycles:wake"
#: A push ends the waiting of a job that is under way.
CYCLES_BELL = "muster:cycles:bell"
#: Hash: counters of the cycles' time and size, for /metrics.
CYCLES_STATS = "muster:stats:cycles"
#: Hash: what was dropped because of its age, for /metrics.
RETENTION_STATS = "muster:stats:retention"


def pass_stats(pool: str) -> str:
    """Hash: counters of the time of a pool's passes, for /metrics."""
    return f"muster:stats:passes:{pool}"


def dispatcher_bell(pool_id: int) -> str:
    """The list on which the dispatcher of a pool waits (BLPOP)."""
    return f"muster:dispatcher:{pool_id}:bell"


def listing(pool_id: int) -> str:
    """What the launcher of a pool said last of the members that live."""
    return f"muster:listing:{pool_id}"
