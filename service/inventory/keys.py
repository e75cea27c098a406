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
