"""Rules that a run has to have kept at each instant, each as one question to PostgreSQL alone: what it
answers are the breaches. Nothing here knows how the service decides.

An attempt holds its places from its admission until its end is committed (`closed_at`), which is also
what the next one on them has to wait for. What ends at an instant is counted before what begins at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, text

#: Named in a verdict at most, of each rule.
_MOST_TOLD = 3

#: What the members of each attempt hold, and what each attempt should have run.
_BASIS = """
WITH shape_of AS (
  SELECT g.id AS group_id, g.member_count, s.shape -> 'roles' AS roles,
    sp.spec -> 'spec' AS spec, (sp.spec #>> '{spec,roles,0,command,2}')::float8 AS runtime
  FROM groups g JOIN shapes s ON s.id = g.shape_id JOIN group_specs sp ON sp.group_id = g.id
), held AS (
  SELECT unit_id, attempt, group_id, queue_id, places, usage, admitted_at, closed_at, outcome, cause
  FROM closed_attempts
  UNION ALL
  SELECT unit_id, attempt, group_id, queue_id, places, usage, admitted_at, 'infinity', 'Live', NULL
  FROM attempts
), seats AS (
  SELECT h.unit_id, h.attempt, h.group_id, (p.place ->> 0)::int AS member, (p.place ->> 2)::bigint AS node_id,
    (o.roles #>> ARRAY[p.place ->> 1, 'requests', 'cpus_milli'])::bigint AS cpus,
    (o.roles #>> ARRAY[p.place ->> 1, 'requests', 'memory_mib'])::bigint AS memory,
    h.admitted_at, h.closed_at
  FROM held h JOIN shape_of o USING (group_id), jsonb_array_elements(h.places) AS p (place)
)
"""

_OVER_NODE = """
, steps AS (
  SELECT node_id, admitted_at AS at, 1 AS turn, cpus, memory FROM seats
  UNION ALL SELECT node_id, closed_at, 0, -cpus, -memory FROM seats
), sums AS (
  SELECT node_id, at, sum(cpus) OVER w AS cpus, sum(memory) OVER w AS memory
  FROM steps WINDOW w AS (PARTITION BY node_id ORDER BY at, turn)
)
SELECT n.name || ' holds ' || s.cpus || ' of ' || n.cpus_milli || ' at ' || s.at FROM sums s
JOIN nodes n ON n.id = s.node_id WHERE s.cpus > n.cpus_milli OR s.memory > n.memory_mib
"""

_OVER_QUEUE = """
, steps AS (
  SELECT queue_id, admitted_at AS at, 1 AS turn, (usage ->> 'cpus')::bigint AS cpus FROM held
  UNION ALL SELECT queue_id, closed_at, 0, -(usage ->> 'cpus')::bigint FROM held
), sums AS (
  SELECT queue_id, at, sum(cpus) OVER (PARTITION BY queue_id ORDER BY at, turn) AS cpus FROM steps
)
SELECT q.name || ' holds ' || s.cpus || ' at ' || s.at FROM sums s JOIN queues q ON q.id = s.queue_id
JOIN quotas t ON t.queue_id = q.id AND t.resource = 'cpus' WHERE s.cpus > t.nominal + t.borrowing
"""

_OVER_COHORT = """
, own AS (
  SELECT q.cohort_id, sum(t.nominal) AS nominal FROM queues q
  JOIN quotas t ON t.queue_id = q.id AND t.resource = 'cpus' GROUP BY 1
), steps AS (
  SELECT q.cohort_id, admitted_at AS at, 1 AS turn, (usage ->> 'cpus')::bigint AS cpus
  FROM held JOIN queues q ON q.id = held.queue_id
  UNION ALL SELECT q.cohort_id, closed_at, 0, -(usage ->> 'cpus')::bigint
  FROM held JOIN queues q ON q.id = held.queue_id
), sums AS (
  SELECT cohort_id, at, sum(cpus) OVER (PARTITION BY cohort_id ORDER BY at, turn) AS cpus FROM steps
)
SELECT c.name || ' holds ' || s.cpus || ' of ' || own.nominal || ' at ' || s.at FROM sums s
JOIN own USING (cohort_id) JOIN cohorts c ON c.id = s.cohort_id WHERE s.cpus > own.nominal
"""

#: What the books charge a queue with is what the members on the nodes ask for.
_USAGE = """
, taken AS (SELECT unit_id, attempt, sum(cpus) AS cpus FROM seats GROUP BY 1, 2)
SELECT 'attempt ' || h.attempt || ' of group ' || h.group_id || ' is counted with ' || (h.usage ->> 'cpus')
FROM held h LEFT JOIN taken t USING (unit_id, attempt)
WHERE (h.usage ->> 'cpus')::bigint IS DISTINCT FROM t.cpus
"""

_NOT_WHOLE = """
, sat AS (SELECT unit_id, attempt, array_agg(member ORDER BY member) AS members FROM seats GROUP BY 1, 2)
SELECT 'attempt ' || h.attempt || ' of group ' || h.group_id || ' has members '
  || COALESCE(s.members, '{}')::text
FROM held h JOIN shape_of o USING (group_id) LEFT JOIN sat s USING (unit_id, attempt)
WHERE s.members IS DISTINCT FROM ARRAY(SELECT generate_series(0, o.member_count - 1))
"""

_TOPOLOGY = """
, spread AS (
  SELECT s.unit_id, s.attempt, s.group_id, count(DISTINCT n.labels ->> level.name) AS domains, level.name
  FROM seats s JOIN shape_of o USING (group_id) JOIN nodes n ON n.id = s.node_id,
    LATERAL (SELECT o.spec ->> 'topology_required' AS name) level
  WHERE level.name IS NOT NULL GROUP BY 1, 2, 3, 5
), cut AS (
  SELECT s.unit_id, s.attempt, s.group_id, s.member / (slice ->> 'size')::int AS part,
    count(DISTINCT n.labels ->> (slice ->> 'level')) AS domains, slice ->> 'level' AS name
  FROM seats s JOIN shape_of o USING (group_id) JOIN nodes n ON n.id = s.node_id,
    LATERAL (SELECT o.roles #> '{0,slice}' AS slice) sliced
  WHERE jsonb_typeof(slice) = 'object' GROUP BY 1, 2, 3, 4, 6
)
SELECT 'attempt ' || attempt || ' of group ' || group_id || ' lies in ' || domains || ' of ' || name FROM
(SELECT attempt, group_id, domains, name FROM spread
 UNION ALL SELECT attempt, group_id, domains, name FROM cut) AS all_of WHERE domains <> 1
"""

_LOST_OR_DOUBLED = """
SELECT 'group ' || g.name || ' ended ' || count(e.id) || ' times well, and is ' || min(u.status)
FROM groups g LEFT JOIN units u ON u.group_id = g.id
LEFT JOIN events e ON e.group_id = g.id AND e.kind = 'Succeeded'
GROUP BY g.id, g.name HAVING count(DISTINCT u.id) <> 1 OR count(e.id) <> 1 OR min(u.status) <> 'Succeeded'
UNION ALL
SELECT 'there are ' || count(*) || ' groups named ' || name FROM groups GROUP BY name HAVING count(*) > 1
UNION ALL
SELECT 'group ' || group_id || ' still holds something' FROM attempts
"""

#: One attempt after the other, and none after the one that ended well.
_ATTEMPTS = """
, turns AS (
  SELECT h.*, row_number() OVER w AS turn, lag(closed_at) OVER w AS before, lead(attempt) OVER w AS next
  FROM held h WINDOW w AS (PARTITION BY unit_id ORDER BY attempt)
)
SELECT 'attempt ' || attempt || ' of group ' || group_id || ' is out of its turn'
FROM turns
WHERE attempt <> turn OR before > admitted_at OR (next IS NULL) <> (outcome = 'Succeeded')
"""

#: A member that its launcher started when it had been claimed, and that ended by itself, has run its time.
_RAN_SHORT = """
, last AS (
  SELECT c.unit_id, c.attempt, c.group_id, c.admitted_at FROM closed_attempts c WHERE c.outcome = 'Succeeded'
), ran AS (
  SELECT l.group_id, count(m.member) FILTER (WHERE m.exit_code = 0) AS ended_well,
    min(extract(epoch FROM m.ended_at - l.admitted_at)) AS seconds
  FROM last l LEFT JOIN member_ends m USING (unit_id, attempt) GROUP BY l.unit_id, l.group_id
)
SELECT 'group ' || r.group_id || ' ran ' || COALESCE(r.seconds, 0) || ' s of ' || o.runtime || ', '
  || r.ended_well || ' members to their end'
FROM ran r JOIN shape_of o USING (group_id)
WHERE r.ended_well <> o.member_count OR COALESCE(r.seconds, 0) < o.runtime
"""

#: Who was stopped gave way to a group that waited for its places (a receipt is written with the claim, in
#: one transaction), by a right: a higher priority in its own queue, or a queue of the cohort that held more
#: than its own with what the same cycle admitted. A cycle decides by what it has read: what ends while it
#: decides, two seconds at most, still counts as held.
_EVICTIONS = """
, steps AS (
  SELECT queue_id, admitted_at AS at, 1 AS turn, (usage ->> 'cpus')::bigint AS cpus, NULL::bigint AS unit_id
  FROM held
  UNION ALL SELECT queue_id, closed_at + interval '2 s', 0, -(usage ->> 'cpus')::bigint, NULL FROM held
  UNION ALL SELECT queue_id, decided_at, 2, 0, unit_id FROM preemptions
), sums AS (
  SELECT unit_id, queue_id, at, sum(cpus) OVER (PARTITION BY queue_id ORDER BY at, turn) AS cpus FROM steps
), used AS (SELECT * FROM sums WHERE unit_id IS NOT NULL)
SELECT 'attempt ' || h.attempt || ' of group ' || h.group_id || ' was stopped: '
  || COALESCE(p.entitlement || ' of ' || c.name || ' over ' || v.name || ' at ' || p.decided_at || ', held '
              || used.cpus || ', claimant ' || COALESCE(p.outcome, 'waits'), 'without a receipt')
FROM held h LEFT JOIN preemptions p ON p.unit_id = h.unit_id AND p.attempt = h.attempt AND p.revision = 0
LEFT JOIN groups v ON v.id = p.group_id LEFT JOIN groups c ON c.id = p.claimant_group_id
LEFT JOIN queues vq ON vq.id = p.queue_id LEFT JOIN queues cq ON cq.id = p.claimant_queue_id
LEFT JOIN quotas t ON t.queue_id = vq.id AND t.resource = 'cpus'
LEFT JOIN used ON used.unit_id = p.unit_id AND used.at = p.decided_at
WHERE h.outcome NOT IN ('Succeeded', 'Live') AND NOT COALESCE(
  h.cause = 'Preempted' AND p.outcome IS NOT NULL
  AND c.submitted_at <= p.decided_at AND h.admitted_at <= p.decided_at AND p.decided_at <= h.closed_at
  AND CASE p.entitlement
    WHEN 'Priority' THEN vq.id = cq.id AND c.priority > v.priority
      AND vq.policy ->> 'preempt_within' = 'lower_priority'
    WHEN 'Reclaim' THEN vq.id <> cq.id AND vq.cohort_id = cq.cohort_id
      AND cq.policy ->> 'reclaim' = 'any' AND used.cpus > t.nominal
  END, false)
"""

RULES: Mapping[str, str] = {
    "no node holds more than it has": _BASIS + _OVER_NODE,
    "no queue holds more than its quota and borrowing limit": _BASIS + _OVER_QUEUE,
    "no cohort holds more than its queues have": _BASIS + _OVER_COHORT,
    "a queue is charged with what its groups hold": _BASIS + _USAGE,
    "a gang is whole": _BASIS + _NOT_WHOLE,
    "topology is kept": _BASIS + _TOPOLOGY,
    "no group is lost or doubled": _LOST_OR_DOUBLED,
    "attempts follow each other, and none the last": _BASIS + _ATTEMPTS,
    "every group ran its full time": _BASIS + _RAN_SHORT,
    "who was stopped gave way to a claim": _BASIS + _EVICTIONS,
}


def broken_rules(conn: Connection) -> Iterator[str]:
    """Each rule that was not kept, with the first of what broke it."""
    for rule, question in RULES.items():
        found = list(conn.execute(text(question)).scalars())
        if found:
            yield f"{rule}: {len(found)} breaches, such as {'; '.join(map(str, found[:_MOST_TOLD]))}"
