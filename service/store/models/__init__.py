"""Tables, each beside those that change with it. Importing any of them declares all, so that whoever reads
`metadata` sees the whole schema, and foreign keys find the tables that they name.

Rules of the architecture's section 13 that SQL can hold are constraints here, above all
`held_devices`: no device is held twice (R6).
"""

from __future__ import annotations

from service.store.models import (
    access,
    attempts,
    claims,
    configuration,
    dependencies,
    events,
    groups,
    inventory,
    leases,
    preemptions,
    usage,
)
from service.store.models.schema import TransactionId, metadata

__all__ = [
    "TransactionId",
    "access",
    "attempts",
    "claims",
    "configuration",
    "dependencies",
    "events",
    "groups",
    "inventory",
    "leases",
    "metadata",
    "preemptions",
    "usage",
]
