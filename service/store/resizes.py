"""Running units grow and shrink: what the leader decided, what the launcher carried out, and what is free
once members are gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import psycopg

from service.admission.plan import Resize
from service.domain.events import FEED, Kind
from service.store.arrays import number_array, text_array
from service.store.pipe import Pipe, compact, json_rows
from service.store.places import pack_places
from service.store.receipts import (
    CLAIMANT_AS_TOLD,
    CLAIMANT_IN_WORDS,
    RECEIPTS,
    STILL_WAITS,
    note_receipts,
    receipt_values,
)

#: What it held before, from the last change on, for what it is charged with.
_HELD_BEFORE = """
    COALESCE(a.held_before, '[]'::jsonb) || jsonb_build_object('usage', a.usage,
      'began_at', COALESCE(a.held_before -> -1 ->> 'ended_at', to_json(a.admitted_at) #>> '{}'),
      'ended_at', CAST(%s AS timestamptz))
"""

#: In the fenced transaction of a cycle, behind its admissions. Compare and set on unit, attempt and
#: revision, of units that run and of which no other resize is under way; the unit's row is the lock (W4).
#: Who would give up members for a claimant keeps them if that does not wait any more.
_RESIZE = f"""
WITH taken AS MATERIALIZED (
  SELECT v.*, r.claimant_id, r.claimant_group_id, r.entitlement, r.claimant_before, r.victim_before,
    r.claimant_after, r.victim_after, r.lost, c.queue_id AS claimant_queue_id,
    {CLAIMANT_AS_TOLD} AS claimant, 'gave up members to ' || {CLAIMANT_IN_WORDS} AS message,
    u.group_id, a.queue_id, a.generation, g.grace_seconds
  FROM unnest(%(ids)s::bigint[], %(attempts)s::int[], %(revisions)s::int[], %(places)s::jsonb[],
              %(usages)s::jsonb[], %(usages_without)s::jsonb[], %(adding)s::jsonb[], %(dropping)s::jsonb[])
    AS v (unit_id, attempt, revision, places, usage, usage_without, adding, dropping)
  JOIN units u ON u.id = v.unit_id JOIN attempts a ON a.unit_id = u.id JOIN groups g ON g.id = u.group_id
  LEFT JOIN {RECEIPTS} ON r.unit_id = v.unit_id
  LEFT JOIN groups c ON c.id = r.claimant_group_id LEFT JOIN units w ON w.id = r.claimant_id
  WHERE (SELECT l.epoch = %(epoch)s::bigint AND c.version = %(config_version)s::bigint
         FROM leadership l, config c WHERE l.id = 1 AND c.id = 1)
    AND u.status = 'Running' AND a.attempt = v.attempt AND a.revision = v.revision - 1
    AND a.is_resizable AND a.evict_target IS NULL AND a.adding IS NULL AND a.dropping IS NULL
    AND (r.unit_id IS NULL OR ({STILL_WAITS} AND c.id IS NOT NULL))
  ORDER BY u.id FOR NO KEY UPDATE OF u, a
), resized AS (
  UPDATE attempts a SET
    revision = t.revision, places = t.places, usage = t.usage, usage_without = t.usage_without,
    resized_at = %(now)s::timestamptz,
    held_before = CASE WHEN t.adding IS NULL THEN a.held_before ELSE {_HELD_BEFORE % "%(now)s"} END,
    adding = CASE WHEN t.adding IS NULL THEN NULL
             ELSE ARRAY(SELECT jsonb_array_elements_text(t.adding)::int) END,
    dropping = CASE WHEN t.dropping IS NULL THEN NULL
               ELSE ARRAY(SELECT jsonb_array_elements_text(t.dropping)::int) END,
    drop_kill_at = CASE WHEN t.dropping IS NULL THEN NULL
                   ELSE %(now)s::timestamptz + make_interval(secs => t.grace_seconds) END
  FROM taken t WHERE a.unit_id = t.unit_id
), held AS (
  INSERT INTO held_devices (node_id, device, unit_id)
  SELECT d.node_id, d.device, d.unit_id
  FROM unnest(%(nodes)s::bigint[], %(devices)s::int[], %(holders)s::bigint[]) AS d (node_id, device, unit_id)
  JOIN taken t ON t.unit_id = d.unit_id
), told AS (
  INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt, generation, actor, data)
  SELECT %(is_feed)s::boolean, %(now)s::timestamptz, %(kind)s, group_id, unit_id, attempt, generation,
    'muster', jsonb_strip_nulls(jsonb_build_object('revision', revision, 'members',
      jsonb_array_length(places) - COALESCE(jsonb_array_length(dropping), 0),
      'added', COALESCE(jsonb_array_length(adding), 0), 'dropped', COALESCE(jsonb_array_length(dropping), 0),
      'message', CASE WHEN claimant_id IS NOT NULL THEN message END, 'claimant', claimant,
      'entitlement', entitlement))
  FROM taken
), noted AS ({
    note_receipts(
        "(SELECT *, jsonb_array_length(dropping) AS members FROM taken) taken WHERE claimant_id IS NOT NULL"
    )
})
SELECT ARRAY(SELECT unit_id FROM taken)
"""  # noqa: S608


def write_resizes(
    driver: psycopg.Connection[Any],
    resizes: Sequence[Resize],
    *,
    epoch: int,
    config_version: int,
    now: datetime,
) -> psycopg.Cursor[Any] | None:
    """In the transaction, and the pipeline, of a cycle. `read_resized` tells of it. None: there was nothing
    to write."""
    if not resizes:
        return None
    rows = sorted(resizes, key=lambda resize: resize.unit_id)
    added = [
        (place.node_id, device, resize.unit_id)
        for resize in rows
        for place in resize.added
        for device in place.devices
    ]
    return driver.execute(
        _RESIZE,
        {
            "now": now,
            "epoch": epoch,
            "config_version": config_version,
            "is_feed": Kind.RESIZED in FEED,
            "kind": Kind.RESIZED.value,
            "ids": number_array(each.unit_id for each in rows),
            "attempts": number_array(each.attempt for each in rows),
            "revisions": number_array(each.revision for each in rows),
            "places": text_array(_json(pack_places(each.places)) for each in rows),
            "usages": text_array(_json(each.usage) for each in rows),
            "usages_without": text_array(_json(each.usage_without) for each in rows),
            "adding": [_members(each.added) for each in rows],
            "dropping": [_members(each.dropped) for each in rows],
            "nodes": number_array(node_id for node_id, _, _ in added),
            "devices": number_array(device for _, device, _ in added),
            "holders": number_array(unit_id for _, _, unit_id in added),
            **receipt_values({each.unit_id: each.receipt for each in rows if each.receipt is not None}),
        },
    )


def read_resized(written: psycopg.Cursor[Any] | None) -> frozenset[int]:
    """Units that were as the plan knew them."""
    if written is None:
        return frozenset()
    ((unit_ids,),) = written.fetchall()
    return frozenset(unit_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStep:
    """Of a locked unit whose attempt still has this revision. `Launched`: what it added runs. `Refused`: its
    launcher does not start that, so it is dropped again. `Gone`: what it dropped has stopped; `places` are
    those that are left."""

    unit_id: int
    attempt: int
    revision: int
    step: str
    message: str | None = None
    places: Sequence[Sequence[Any]] | None = None


LAUNCHED, REFUSED, GONE = "Launched", "Refused", "Gone"


def send_resize_steps(pipe: Pipe, steps: Sequence[ResizeStep], *, now: datetime) -> None:
    pipe.run(_STEPS, json_rows(steps), now)


def _members(places: Sequence[Any]) -> str | None:
    return _json([place.member for place in places]) if places else None


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


#: $1 rows of ResizeStep, $2 now. The ends of members that are gone are void: their numbers may run again.
_STEPS = compact(
    """
    WITH v AS MATERIALIZED (
        SELECT v.*, a.generation, a.group_id, a.adding, a.dropping
        FROM json_to_recordset(CAST($1 AS json))
            AS v (unit_id bigint, attempt int, revision int, step text, message text, places jsonb)
        JOIN attempts a ON a.unit_id = v.unit_id AND a.attempt = v.attempt AND a.revision = v.revision
        WHERE CASE v.step WHEN 'Gone' THEN a.dropping ELSE a.adding END IS NOT NULL
    ), changed AS (
        UPDATE attempts a
        SET revision = a.revision + (v.step = 'Refused')::int,
            dropping = CASE v.step WHEN 'Refused' THEN a.adding END,
            drop_kill_at = CASE v.step WHEN 'Refused' THEN $2 END,
            adding = NULL,
            usage_without = CASE v.step WHEN 'Refused' THEN a.usage_without END,
            places = COALESCE(v.places, a.places),
            usage = CASE v.step WHEN 'Gone' THEN a.usage_without ELSE a.usage END,
            held_before = CASE v.step WHEN 'Gone' THEN
    """,
    _HELD_BEFORE % "$2",
    """
            ELSE a.held_before END
        FROM v WHERE a.unit_id = v.unit_id
    ), freed AS (
        DELETE FROM held_devices d USING v
        WHERE v.step = 'Gone' AND d.unit_id = v.unit_id AND NOT EXISTS (
            SELECT FROM jsonb_array_elements(v.places) AS p (place)
            WHERE (p.place ->> 2)::bigint = d.node_id AND p.place -> 3 @> to_jsonb(d.device))
    ), void AS (
        DELETE FROM member_ends e USING v
        WHERE v.step = 'Gone' AND e.unit_id = v.unit_id AND e.attempt = v.attempt
          AND e.member = ANY(v.dropping)
    )
    INSERT INTO events (is_feed, at, kind, actor, group_id, unit_id, attempt, generation, data)
    SELECT true, $2, CASE v.step WHEN 'Refused' THEN 'ResizeRefused' ELSE 'ResizeDone' END, 'muster',
           v.group_id, v.unit_id, v.attempt, v.generation,
           jsonb_strip_nulls(jsonb_build_object('message', v.message,
             'started', CASE v.step WHEN 'Launched' THEN cardinality(v.adding) END,
             'stopped', CASE v.step WHEN 'Gone' THEN cardinality(v.dropping) END))
    FROM v
    """,
)
