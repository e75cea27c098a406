"""Submits that are written in one transaction stay apart in all that their callers see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from litestar.concurrency import set_asyncio_executor
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from service.api.handler_threads import HandlerThreads
from service.api.lane import SubmitLane
from service.domain.errors import Conflict, InfeasibleRequest, InvalidRequest, StoreUnavailable
from service.domain.group import GroupSpec, Role
from service.domain.principal import KeyRole, Principal
from service.domain.resources import Resources
from service.operations.configuration import KnownConfiguration
from service.operations.secret_box import open_box
from service.operations.submission import Outcome, Submission, Submitted
from service.operations.submit import commit_submissions
from service.store.engine import make_engine
from service.store.idempotency import KeyedGroups, SubmitKey, take_keys
from tests.integration.api.rows import add_nodes, add_pool
from tests.lines import PostgresLine, Talk

T = TypeVar("T")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PRINCIPAL = Principal(tenant="t", user="u", role=KeyRole.USER)
#: Far less than the ten seconds that one alone waits for a lock.
SOON = 5.0


class Lane:
    """A lane on an engine, which counts how often it rings."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.rings = 0
        box = open_box(key=None, data=folder)
        self._commit = partial(commit_submissions, engine, box=box, configuration=KnownConfiguration())

    def at_once(self, asked: Sequence[Submission]) -> list[Submitted | BaseException]:
        """What becomes of each when all come before the first is written."""
        return self.run(lambda lane: asyncio.gather(*map(lane.submit, asked), return_exceptions=True))

    def run(self, use: Callable[[SubmitLane], Coroutine[object, object, T] | asyncio.Future[T]]) -> T:
        async def within() -> T:
            return await use(SubmitLane(self._commit, ring=self._ring))

        with HandlerThreads(4) as threads:
            set_asyncio_executor(threads)
            return asyncio.run(within())

    def _ring(self) -> None:
        self.rings += 1


@pytest.fixture
def lane(engine: Engine, tmp_path: Path) -> Lane:
    return Lane(engine, tmp_path)


@pytest.fixture
def line(database_url: str, server_folder: Path) -> Iterator[PostgresLine]:
    with PostgresLine(database_url, server_folder) as line:
        yield line


def ask(name: str = "g", *, key: str | None = None, gpus: int = 1, queue: str = "default") -> Submission:
    role = Role(name="worker", count=1, requests=Resources(gpus=gpus))
    submit_key = None
    if key is not None:
        submit_key = SubmitKey(tenant="t", owner="u", key=key, body_digest=f"{name}{gpus}{queue}".encode())
    spec = GroupSpec(name=name, queue=queue, roles=(role,))
    return Submission(specs=[spec], principal=PRINCIPAL, now=NOW, key=submit_key)


def names(engine: Engine) -> list[str]:
    """Of all groups, in the order of their submission; each has its unit, spec and event."""
    with engine.connect() as conn:
        found = list(conn.execute(text("SELECT name FROM groups ORDER BY id")).scalars())
        for table in ("units", "group_specs", "events"):
            assert conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == len(found)
    return found


def transactions(engine: Engine) -> int:
    with engine.connect() as conn:
        return int(conn.execute(text("SELECT count(DISTINCT xid) FROM events")).scalar_one())


def made(outcomes: Sequence[object]) -> list[Submitted]:
    return [each for each in outcomes if isinstance(each, Submitted) and not each.is_repeated]


def test_those_who_come_at_once_are_one_transaction_in_their_order(lane: Lane, engine: Engine) -> None:
    wanted = [f"g{number:02}" for number in range(40)]
    outcomes = lane.at_once([ask(name) for name in wanted])
    assert names(engine) == wanted
    assert [each.groups[0].spec.name for each in made(outcomes)] == wanted
    assert transactions(engine) == 1
    assert lane.rings == 1


def test_a_refused_one_harms_no_other(lane: Lane, engine: Engine) -> None:
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (4, "H100-80GB")})
        events = conn.execute(text("DELETE FROM events")).rowcount
        assert events
    outcomes = lane.at_once(
        [ask("a"), ask("no-queue", queue="nowhere"), ask("b"), ask("too-large", gpus=64), ask("c")]
    )
    assert names(engine) == ["a", "b", "c"]
    assert len(made(outcomes)) == 3
    assert isinstance(outcomes[1], InvalidRequest)
    assert [error.field for error in outcomes[1].errors] == ["queue"]
    assert isinstance(outcomes[3], InfeasibleRequest)
    assert transactions(engine) == 1
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM shapes")).scalar_one() == 1, "none of what was refused"


def test_those_who_are_all_refused_wake_nobody(lane: Lane, engine: Engine) -> None:
    outcomes = lane.at_once([ask(queue="nowhere", key="k"), ask(queue="nowhere")])
    assert [type(each) for each in outcomes] == [InvalidRequest, InvalidRequest]
    assert lane.rings == 0
    assert names(engine) == []


def test_one_key_twice_is_one_group(lane: Lane, engine: Engine) -> None:
    first, again, other = lane.at_once([ask("a", key="k"), ask("a", key="k"), ask("b", key="k")])
    assert isinstance(first, Submitted)
    assert isinstance(again, Submitted)
    assert again.is_repeated
    assert again.public_ids == first.public_ids
    assert isinstance(other, Conflict)
    assert names(engine) == ["a"]


def test_a_key_is_that_of_the_first_that_is_not_refused(lane: Lane, engine: Engine) -> None:
    refused, first, again = lane.at_once(
        [ask("a", key="k", queue="nowhere"), ask("b", key="k"), ask("b", key="k")]
    )
    assert isinstance(refused, InvalidRequest)
    assert isinstance(first, Submitted)
    assert isinstance(again, Submitted)
    assert again.is_repeated
    assert again.public_ids == first.public_ids
    later, refused_again = lane.at_once([ask("b", key="k"), ask("a", key="k", queue="nowhere")])
    assert isinstance(later, Submitted)
    assert later.public_ids == first.public_ids
    assert isinstance(refused_again, Conflict)
    assert names(engine) == ["b"]


def test_a_key_of_which_all_are_refused_is_nobodys(lane: Lane, engine: Engine) -> None:
    lane.at_once([ask("a", key="k", queue="nowhere"), ask("c", queue="nowhere"), ask("d")])
    with engine.connect() as conn:
        assert conn.execute(text("SELECT count(*) FROM idempotency_keys")).scalar_one() == 0
    assert len(made(lane.at_once([ask("b", key="k")]))) == 1


def test_a_thousand_repetitions_at_once_make_one_group(lane: Lane, engine: Engine) -> None:
    outcomes = lane.at_once([ask(key="k") for _ in range(1_000)])
    assert all(isinstance(each, Submitted) for each in outcomes)
    assert len({each.public_ids for each in outcomes if isinstance(each, Submitted)}) == 1
    assert len(made(outcomes)) == 1
    assert names(engine) == ["g"]
    assert lane.rings == 1


@pytest.mark.parametrize("is_carried_out", [False, True], ids=["unheard", "carried out"])
def test_a_commit_that_is_cut_off_is_told_to_each_and_tried_for_none(
    line: PostgresLine, engine: Engine, tmp_path: Path, is_carried_out: bool
) -> None:
    submitting: set[Talk] = set()
    line.before(b'"groups"', submitting.add)
    cut = line.after if is_carried_out else line.before
    cut(b"COMMIT", lambda talk: talk.cut() if talk in submitting else None)
    over = make_engine(line.url)
    lane = Lane(over, tmp_path)
    asked = [ask(f"g{number}", key=f"k{number}") for number in range(8)]
    outcomes = lane.at_once(asked)
    assert [type(each) for each in outcomes] == [OperationalError] * 8
    wait_until_idle(engine)
    assert len(names(engine)) == (8 if is_carried_out else 0)
    # Who asks again with its key has one group, whatever became of the first.
    line.heal()
    again = lane.at_once(asked)
    assert all(isinstance(each, Submitted) and each.is_repeated is is_carried_out for each in again)
    assert names(engine) == [f"g{number}" for number in range(8)]
    over.dispose()


def test_who_waits_for_a_lock_keeps_nobody_else(lane: Lane, engine: Engine) -> None:
    """Somebody else's transaction has one of the keys, and does not end."""
    held = KeyedGroups(key=keyed("held"), group_ids=(), created_at=NOW)
    with engine.connect() as other:
        take_keys(other, [held])

        async def use(lane: SubmitLane) -> list[Submitted]:
            began_at = time.monotonic()
            waiting, *free = [
                asyncio.ensure_future(lane.submit(each)) for each in (ask(key="held"), ask("a"), ask("b"))
            ]
            done = await asyncio.wait_for(asyncio.gather(*free), SOON)
            done.append(await asyncio.wait_for(lane.submit(ask("later")), SOON))
            assert time.monotonic() - began_at < SOON
            assert not waiting.done()
            other.rollback()
            return [*done, await waiting]

        outcomes = lane.run(use)
    assert len(made(outcomes)) == 4
    assert sorted(names(engine)) == ["a", "b", "g", "later"]


def test_one_alone_that_waits_for_a_lock_keeps_nobody_who_comes_later(lane: Lane, engine: Engine) -> None:
    held = KeyedGroups(key=keyed("held"), group_ids=(), created_at=NOW)
    with engine.connect() as other:
        take_keys(other, [held])

        async def use(lane: SubmitLane) -> list[Submitted]:
            waiting = asyncio.ensure_future(lane.submit(ask(key="held")))
            await asyncio.sleep(0)  # it is written alone
            done = await asyncio.wait_for(lane.submit(ask("later")), SOON)
            assert not waiting.done()
            other.rollback()
            return [done, await waiting]

        outcomes = lane.run(use)
    assert len(made(outcomes)) == 2
    assert sorted(names(engine)) == ["g", "later"]


def test_those_for_whom_no_thread_was_free_are_not_tried_one_by_one() -> None:
    tried: list[int] = []

    def commit(submissions: Sequence[Submission], *, is_patient: bool) -> list[Outcome]:
        assert not is_patient
        tried.append(len(submissions))
        raise StoreUnavailable("All threads wait.")

    async def use() -> list[Submitted | BaseException]:
        lane = SubmitLane(commit, ring=lambda: None)
        return await asyncio.gather(*[lane.submit(ask()) for _ in range(8)], return_exceptions=True)

    with HandlerThreads(4) as threads:
        set_asyncio_executor(threads)
        outcomes = asyncio.run(use())
    assert [type(each) for each in outcomes] == [StoreUnavailable] * 8
    assert tried == [8]


def test_what_cannot_be_written_harms_no_other(lane: Lane, engine: Engine) -> None:
    """The edge lets no such text in; if it did, only its sender would be told."""
    outcomes = lane.at_once([ask("a"), ask("half a character: \ud800"), ask("b"), ask("no \x00 here")])
    assert [type(each) for each in outcomes[::2]] == [Submitted, Submitted]
    assert all(isinstance(each, Exception) for each in outcomes[1::2])
    assert sorted(names(engine)) == ["a", "b"]


def keyed(key: str) -> SubmitKey:
    return SubmitKey(tenant="t", owner="u", key=key, body_digest=b"other")


def wait_until_idle(engine: Engine) -> None:
    """Until no transaction but this one is under way: what was cut off has come to its end."""
    busy = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    for _ in range(500):
        with engine.connect() as conn:
            if not conn.execute(busy).scalar_one():
                return
            conn.execute(text("SELECT pg_sleep(0.02)"))
    raise AssertionError("a transaction does not end")
