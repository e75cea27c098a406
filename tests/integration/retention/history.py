"""What a database is asked after something was dropped, and groups with submit keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Engine, text

from service.domain.dependency import Dependency
from service.domain.group import GroupSpec, Role
from service.domain.principal import KeyRole, Principal
from service.domain.resources import Resources
from service.operations.cancel import cancel_group
from service.operations.configuration import KnownConfiguration
from service.operations.retain import Dropped, drop_ended_groups
from service.operations.secret_box import SecretBox
from service.operations.submission import Submitted
from service.operations.submit import submit_groups
from service.store.idempotency import SubmitKey
from tests.integration.dispatch.site import SECRET_KEY

DAY = timedelta(days=1)
PRINCIPAL = Principal(tenant="t", user="u", role=KeyRole.USER)
_SPEC = GroupSpec(name="g", roles=(Role(name="worker", count=1, requests=Resources(gpus=1)),))
#: Every table with rows of groups, and how a row names its group.
TABLES = {
    "groups": "id",
    "group_specs": "group_id",
    "units": "group_id",
    "member_ends": "unit_id >> 20",
    "closed_attempts": "group_id",
    "events": "group_id",
}


def drop(engine: Engine, now: datetime, *, kept: timedelta = 30 * DAY) -> list[Dropped]:
    """Every step of one run."""
    steps = [drop_ended_groups(engine, after_id=0, kept=kept, now=now)]
    while steps[-1].last_id is not None:
        steps.append(drop_ended_groups(engine, after_id=steps[-1].last_id, kept=kept, now=now))
    return steps


def left(engine: Engine) -> dict[str, set[int]]:
    """The groups that each table still has rows of."""
    with engine.connect() as conn:
        return {
            table: set(conn.execute(text(f"SELECT {group} FROM {table} WHERE {group} IS NOT NULL")).scalars())
            for table, group in TABLES.items()
        }


def key_of(name: str) -> SubmitKey:
    return SubmitKey(tenant="t", owner="u", key=name, body_digest=b"same")


def submit(
    engine: Engine,
    at: datetime,
    *,
    count: int = 1,
    key: str | None = None,
    after: tuple[Dependency, ...] = (),
) -> Submitted:
    return submit_groups(
        engine,
        [replace(_SPEC, after=after)] * count,
        principal=PRINCIPAL,
        now=at,
        box=SecretBox(SECRET_KEY),
        configuration=KnownConfiguration(),
        key=key_of(key) if key else None,
    )


def cancel(engine: Engine, public_ids: Sequence[UUID], at: datetime) -> None:
    for public_id in public_ids:
        cancel_group(engine, public_id, principal=PRINCIPAL, now=at)


def keys(engine: Engine) -> list[str]:
    with engine.connect() as conn:
        return list(conn.execute(text("SELECT key FROM idempotency_keys ORDER BY key")).scalars())
