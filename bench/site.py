"""A cluster in the books alone: nodes, queues and groups as the service writes them, without anything
that launches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Engine, text

from service.clock import Clock
from service.domain.group import GroupSpec
from service.domain.principal import KeyRole, Principal
from service.domain.tree import QueueSettings
from service.operations.cancel import cancel_group
from service.operations.configuration import KnownConfiguration
from service.operations.queues import create_queue
from service.operations.register_nodes import register_nodes
from service.operations.secret_box import SecretBox
from service.operations.submit import submit_groups
from service.store.inventory_rows import ensure_pool
from service.store.migrate import upgrade
from workers.launchers.local.nodes import parse_nodes
from workers.reconcile import reported_node

_OWNER = Principal(tenant="bench", user="bench", role=KeyRole.USER)
#: A key for secrets that nobody has.
_KEY = "A" * 43 + "="

#: The end of everything that lives, as the dispatcher records it: history and usage are left out,
#: because no cycle reads them.
_END_ALL = """
WITH gone AS (DELETE FROM attempts RETURNING unit_id, group_id, attempt),
ended AS (
  UPDATE units SET status = 'Succeeded', version = version + 1, ended_at = :now
  FROM gone WHERE units.id = gone.unit_id
)
INSERT INTO events (is_feed, at, kind, group_id, unit_id, attempt)
SELECT true, :now, 'Succeeded', group_id, unit_id, attempt FROM gone
"""


class Books:
    """A migrated database with one pool of `nodes` and `queues` queues without quotas."""

    def __init__(self, engine: Engine, clock: Clock, *, nodes: str, queues: int) -> None:
        self._engine = engine
        self._clock = clock
        self._box = SecretBox(_KEY)
        self._configuration = KnownConfiguration()
        self.queues = [f"bench-{number}" for number in range(queues)]
        upgrade(engine.url.render_as_string(hide_password=False))
        with engine.begin() as conn:
            pool_id = ensure_pool(conn, "bench", launcher="simulated", levels=["host"])
            reports = [reported_node(report) for report in parse_nodes(nodes)]
            register_nodes(conn, pool_id, reports=reports, now=clock.now())
        for name in self.queues:
            create_queue(engine, QueueSettings(name=name), actor=_OWNER.user, now=clock.now())

    def submit(self, specs: Sequence[GroupSpec]) -> list[UUID]:
        submitted = submit_groups(
            self._engine,
            specs,
            principal=_OWNER,
            now=self._clock.now(),
            box=self._box,
            configuration=self._configuration,
        )
        return list(submitted.public_ids)

    def cancel(self, groups: Sequence[UUID]) -> None:
        for public_id in groups:
            cancel_group(self._engine, public_id, principal=_OWNER, now=self._clock.now())

    def waiting(self) -> list[UUID]:
        """Public ids of the groups that wait."""
        with self._engine.connect() as conn:
            rows = conn.execute(
                text(
                    "SELECT public_id FROM groups JOIN units ON units.group_id = groups.id"
                    " WHERE units.status = 'Pending' ORDER BY groups.id"
                )
            )
            return list(rows.scalars())

    def end_all(self) -> None:
        """Everything that lives has ended well."""
        with self._engine.begin() as conn:
            conn.execute(text(_END_ALL), {"now": self._clock.now()})

    def settle(self) -> None:
        """What autovacuum would have done by now, so that it does not begin in the middle of a cycle."""
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("VACUUM ANALYZE"))
