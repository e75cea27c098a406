"""The statements of a cycle's transaction: waiting rows become admitted ones, with their holds.

Whatever a cycle admits, it takes one statement, in one round trip with the rest of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from service.admission.plan import Admission
from service.domain.events import FEED, Kind
from service.store.arrays import number_array, text_array
from service.store.lease import Fence
from service.store.places import pack_places

_LOCK_FENCE = "SELECT FROM leadership l, config c WHERE l.id = 1 AND c.id = 1 FOR SHARE"
_LOCK_GROUPS = "SELECT FROM groups WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE"
_LOCK_RUNNING = """
SELECT FROM units u JOIN attempts a ON a.unit_id = u.id WHERE u.id = ANY(%s::bigint[])
ORDER BY u.id FOR NO KEY UPDATE OF u, a
"""
#: `taken`: compare and set, of rows that are as the plan knew them, unless the fence has moved, which
#: stays where it is until the end (L2). `first_index` is the lowest index that keeps waiting, or the
#: last one if none does: then the row itself is admitted. No UPDATE promises in which order it locks:
#: a deadlock is retried (W4). `won`: what left these rows, with the limits of its group, which cannot
#: be newer than the row's version. The rest is what the admitted units are from now on.
_ADMIT = """
WITH fence AS MATERIALIZED (
  SELECT l.epoch, c.version FROM leadership l, config c WHERE l.id = 1 AND c.id = 1 FOR SHARE
), taken AS (
  UPDATE units u SET
    version = u.version + 1,
    first_index = w.first_index,
    status = CASE WHEN w.is_used_up THEN 'Admitted' ELSE u.status END,
    admitted_at = CASE WHEN w.is_used_up THEN %(now)s::timestamptz ELSE u.admitted_at END,
    backoff_until = CASE WHEN w.is_used_up THEN NULL ELSE u.backoff_until END,
    cause = CASE WHEN w.is_used_up THEN NULL ELSE u.cause END,
    message = CASE WHEN w.is_used_up THEN NULL ELSE u.message END
  FROM unnest(%(ids)s::bigint[], %(versions)s::int[], %(attempts)s::int[], %(first_indexes)s::int[],
              %(used_up)s::boolean[]) AS w (id, version, attempt, first_index, is_used_up)
  WHERE (SELECT epoch = %(epoch)s::bigint AND version = %(config_version)s::bigint FROM fence)
    AND u.id = w.id AND u.status = 'Pending' AND u.version = w.version AND u.attempt = w.attempt
  RETURNING u.id, u.attempt, u.restarts_used, u.refused_dispatches, u.failed_nodes
), won AS (
  SELECT a.*, t.attempt, t.restarts_used, t.refused_dispatches, t.failed_nodes,
    g.time_limit_seconds, g.start_timeout_seconds
  FROM unnest(%(unit_ids)s::bigint[], %(from_ids)s::bigint[], %(group_ids)s::bigint[],
              %(queue_ids)s::bigint[], %(pool_ids)s::bigint[], %(indexes)s::int[],
              %(places)s::jsonb[], %(usages)s::jsonb[], %(resizable)s::boolean[])
    AS a (unit_id, from_id, group_id, queue_id, pool_id, index, places, usage, is_resizable)
  JOIN taken t ON t.id = a.from_id
  JOIN groups g ON g.id = a.group_id
), members AS (
  INSERT INTO units (id, group_id, first_index, last_index, status, attempt, version, is_held,
    restarts_used, refused_dispatches, failed_nodes, admitted_at)
  SELECT unit_id, group_id, index, index, 'Admitted', attempt, 1, false,
    restarts_used, refused_dispatches, failed_nodes, %(now)s::timestamptz
  FROM won WHERE unit_id <> from_id
), live AS (
  INSERT INTO attempts (unit_id, attempt, revision, generation, group_id, queue_id, pool_id, places, usage,
    is_resizable, dispatch, dispatches, admitted_at, start_deadline_at, time_limit_at)
  SELECT unit_id, attempt, 1, 1, group_id, queue_id, pool_id, places, usage, is_resizable, 'Waiting', 0,
    %(now)s::timestamptz, %(now)s::timestamptz + make_interval(secs => start_timeout_seconds),
    %(now)s::timestamptz + make_interval(secs => time_limit_seconds)
  FROM won
), held AS (
  INSERT INTO held_devices (node_id, device, unit_id)
  SELECT d.node_id, d.device, d.unit_id
  FROM unnest(%(nodes)s::bigint[], %(devices)s::int[], %(holders)s::bigint[]) AS d (node_id, device, unit_id)
  JOIN won ON won.unit_id = d.unit_id
), told AS (
  INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt, generation, actor, data)
  SELECT %(is_feed)s::boolean, %(now)s::timestamptz, %(kind)s, group_id, unit_id, attempt, 1, 'muster',
    %(told)s::jsonb
  FROM won
)
SELECT epoch, version, ARRAY(SELECT id FROM taken) FROM fence
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A waiting row as the plan knew it, and what the plan leaves of it."""

    id: int
    version: int
    attempt: int
    first_index: int
    is_used_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """`fence` as it was found; if it is not the plan's, nothing was written. `row_ids`: those of the
    waiting rows that were still as the plan knew them."""

    fence: Fence
    row_ids: frozenset[int]


def begin_cycle(
    driver: psycopg.Connection[Any], independent_groups: Iterable[int], *, running: Iterable[int] = ()
) -> None:
    """Begin a cycle's transaction, in its pipeline. Before their units are looked at, `independent_groups`
    and then the units that run and change, `running`, are locked in id order, each by a statement of its own
    (W4), and before them the fence, as everybody does it who moves the one and locks the other."""
    groups, units = sorted(set(independent_groups)), sorted(set(running))
    driver.execute("BEGIN")
    if groups or units:
        driver.execute(_LOCK_FENCE)
    if groups:
        driver.execute(_LOCK_GROUPS, [number_array(groups)])
    if units:
        driver.execute(_LOCK_RUNNING, [number_array(units)])


def admit(
    driver: psycopg.Connection[Any],
    admissions: Sequence[Admission],
    *,
    rows: Sequence[WaitingRow],
    fence: Fence,
    now: datetime,
    cycle: int,
) -> psycopg.Cursor[Any]:
    """Write what a cycle admits, in its transaction and pipeline, which from then on keeps the fence (L2),
    also if nothing is admitted. `read_taken` tells of it once the pipeline is closed.

    Raises psycopg's errors, such as UniqueViolation if a device is held already (R6).
    """
    return driver.execute(
        _ADMIT,
        {
            "now": now,
            "epoch": fence.epoch,
            "config_version": fence.config_version,
            "is_feed": Kind.ADMITTED in FEED,
            "kind": Kind.ADMITTED.value,
            "told": msgspec.json.encode({"epoch": fence.epoch, "cycle": cycle}).decode(),
            **_row_columns(rows),
            **_admission_columns(admissions),
            **_device_columns(admissions),
        },
    )


def read_taken(admitted: psycopg.Cursor[Any]) -> Taken:
    ((epoch, version, row_ids),) = admitted.fetchall()
    return Taken(fence=Fence(epoch, version), row_ids=frozenset(row_ids))


def _row_columns(rows: Sequence[WaitingRow]) -> dict[str, str]:
    rows = sorted(rows, key=lambda row: row.id)
    return {
        "ids": number_array(row.id for row in rows),
        "versions": number_array(row.version for row in rows),
        "attempts": number_array(row.attempt for row in rows),
        "first_indexes": number_array(row.first_index for row in rows),
        "used_up": text_array("t" if row.is_used_up else "f" for row in rows),
    }


def _admission_columns(admissions: Sequence[Admission]) -> dict[str, str]:
    return {
        "unit_ids": number_array(each.unit_id for each in admissions),
        "from_ids": number_array(each.from_unit_id for each in admissions),
        "group_ids": number_array(each.group_id for each in admissions),
        "queue_ids": number_array(each.queue_id for each in admissions),
        "pool_ids": number_array(each.pool_id for each in admissions),
        "indexes": number_array(each.index for each in admissions),
        "places": text_array(_json(pack_places(each.places)) for each in admissions),
        "usages": text_array(_json(each.usage) for each in admissions),
        "resizable": text_array("t" if each.is_resizable else "f" for each in admissions),
    }


def _device_columns(admissions: Sequence[Admission]) -> dict[str, str]:
    held = [
        (place.node_id, device, admission.unit_id)
        for admission in admissions
        for place in admission.places
        for device in place.devices
    ]
    return {
        "nodes": number_array(node_id for node_id, _, _ in held),
        "devices": number_array(device for _, device, _ in held),
        "holders": number_array(unit_id for _, _, unit_id in held),
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
