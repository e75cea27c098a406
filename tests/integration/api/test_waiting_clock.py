"""Since when a group has waited for places: its guard counts from there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine, text

from service.domain.dependency import Dependency, When
from service.domain.group import GroupSpec, Role
from service.domain.principal import KeyRole, Principal
from service.domain.resources import Resources
from service.domain.shape import Scheduling
from service.operations.cancel import cancel_group, cancel_member
from service.operations.configuration import KnownConfiguration
from service.operations.hold import hold_group, release_group
from service.operations.secret_box import SecretBox
from service.operations.submit import submit_groups
from service.store.engine import make_engine
from service.store.unit_rows import pending_units, waiting_statement
from tests.integration.dispatch.site import SECRET_KEY, START

OWNER = Principal(tenant="t", user="u", role=KeyRole.USER)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


class Group:
    id: UUID

    def __init__(
        self, engine: Engine, *after: Group, members: int = 1, not_before: float | None = None
    ) -> None:
        self.engine = engine
        spec = GroupSpec(
            name="g",
            roles=(Role(name="worker", count=members, requests=Resources(gpus=1)),),
            scheduling=Scheduling.GANG if members == 1 else Scheduling.INDEPENDENT,
            after=tuple(Dependency(group=each.id, when=When.ANY) for each in after),
            not_before_at=None if not_before is None else at(not_before),
        )
        submitted = submit_groups(
            engine,
            [spec],
            principal=OWNER,
            now=at(0),
            box=SecretBox(SECRET_KEY),
            configuration=KnownConfiguration(),
        )
        (self.id,) = submitted.public_ids

    def hold(self, seconds: float) -> None:
        hold_group(self.engine, self.id, principal=OWNER, now=at(seconds))

    def release(self, seconds: float) -> None:
        release_group(self.engine, self.id, principal=OWNER, now=at(seconds))

    def cancel(self, seconds: float) -> None:
        cancel_group(self.engine, self.id, principal=OWNER, now=at(seconds))

    def waiting_since(self) -> float:
        """In seconds; it is the same for all that waits of the group."""
        with self.engine.connect() as conn:
            rows = pending_units(tuple(row) for row in conn.exec_driver_sql(waiting_statement()))
        found = {
            (row.waiting_since or row.submitted_at) for row in rows.values() if row.public_id == str(self.id)
        }
        (since,) = found
        return (since - at(0)).total_seconds()


def test_it_runs_from_the_submission(engine: Engine) -> None:
    assert Group(engine).waiting_since() == 0


def test_it_stands_still_while_somebody_holds_the_group(engine: Engine) -> None:
    group = Group(engine)
    group.hold(10)
    group.release(25)
    # Ten seconds were waited before.
    assert group.waiting_since() == 15
    group.hold(30)
    group.hold(31)
    group.release(40)
    assert group.waiting_since() == 25


def test_it_runs_from_the_instant_before_which_the_group_was_not_to_start(engine: Engine) -> None:
    group = Group(engine, not_before=100)
    assert group.waiting_since() == 100
    group.hold(10)
    group.release(50)
    assert group.waiting_since() == 100
    group.hold(90)
    group.release(130)
    assert group.waiting_since() == 130


def test_it_runs_from_when_the_last_group_that_it_waits_for_ended(engine: Engine) -> None:
    one, two = Group(engine), Group(engine)
    group = Group(engine, one, two)
    one.cancel(10)
    two.cancel(20)
    assert group.waiting_since() == 20


def test_it_does_not_run_while_the_group_is_held_when_that_ends(engine: Engine) -> None:
    one = Group(engine)
    group = Group(engine, one)
    group.hold(5)
    one.cancel(10)
    group.release(40)
    assert group.waiting_since() == 40


def test_parts_of_a_range_have_the_clock_of_the_whole(engine: Engine) -> None:
    one = Group(engine)
    group = Group(engine, one, members=5)
    group.hold(10)
    cancel_member(engine, group.id, member=2, principal=OWNER, now=at(12))
    one.cancel(20)
    group.release(30)
    assert group.waiting_since() == 30
    with engine.connect() as conn:
        found = conn.execute(
            text("SELECT open_dependencies FROM units WHERE status = 'Pending' AND ended_at IS NULL")
        ).scalars()
        assert set(found) == {None}
