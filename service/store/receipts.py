"""Receipts of who gives way to whom, in the statement that makes them do so (L2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.admission.plan import Receipt
from service.domain.unit import group_of
from service.store.arrays import number_array, text_array

#: A set of rows, by unit that gives way: what `receipt_values` says of it.
RECEIPTS = """
unnest(%(giving)s::bigint[], %(claimants)s::bigint[], %(claimant_groups)s::bigint[],
  %(entitlements)s::text[], %(claimants_before)s::float8[], %(victims_before)s::float8[],
  %(claimants_after)s::float8[], %(victims_after)s::float8[], %(lost)s::float8[])
  AS r (unit_id, claimant_id, claimant_group_id, entitlement, claimant_before, victim_before, claimant_after,
        victim_after, lost)
"""

#: Of a victim `g` that gives way to a claimant `c`, both of them groups: whose a claimant is not is not told
#: which group it is.
_IS_OWN = "(c.tenant, c.owner) = (g.tenant, g.owner)"
CLAIMANT_AS_TOLD = f"CASE WHEN {_IS_OWN} THEN c.public_id END"
CLAIMANT_IN_WORDS = f"CASE WHEN {_IS_OWN} THEN 'group ' || c.public_id ELSE 'another group' END"
#: Of the row `w` of a claimant. Nobody gives way to one that does not wait any more, or is held.
STILL_WAITS = "w.status = 'Pending' AND NOT w.is_held"


def note_receipts(rows: str) -> str:
    """Writes them for `rows`: a query with the columns of a receipt, those of the unit that gives way, and
    `revision` and `members` as in the table."""
    return f"""
  INSERT INTO preemptions (unit_id, attempt, revision, members, group_id, queue_id, claimant_unit_id,
    claimant_group_id, claimant_queue_id, entitlement, claimant_share_before, victim_share_before,
    claimant_share_after, victim_share_after, lost_gpu_seconds, decided_at)
  SELECT unit_id, attempt, revision, members, group_id, queue_id, claimant_id, claimant_group_id,
    claimant_queue_id, entitlement, claimant_before, victim_before, claimant_after, victim_after, lost,
    %(now)s::timestamptz
  FROM {rows}
"""  # noqa: S608


def receipt_values(receipts: Mapping[int, Receipt]) -> dict[str, Any]:
    """By unit that gives way."""
    rows = sorted(receipts.items())
    found = [receipt for _, receipt in rows]
    return {
        "giving": number_array(unit_id for unit_id, _ in rows),
        "claimants": number_array(each.claimant_id for each in found),
        "claimant_groups": number_array(group_of(each.claimant_id) for each in found),
        "entitlements": text_array(each.entitlement.value for each in found),
        "claimants_before": [each.before.claimant for each in found],
        "victims_before": [each.before.victim for each in found],
        "claimants_after": [each.after.claimant for each in found],
        "victims_after": [each.after.victim for each in found],
        "lost": [each.lost_gpu_seconds for each in found],
    }
