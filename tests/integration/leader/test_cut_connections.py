"""A connection to PostgreSQL that ends at every single message of a cycle, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from sqlalchemy.exc import SQLAlchemyError

from service.clock import VirtualClock
from service.domain.unit import unit_id
from service.settings import Settings
from tests.integration.leader.site import Site, gang
from tests.integration.leader.test_interleavings import assert_books_agree, holders
from tests.lines import CutAt, PostgresLine
from workers.admission import Leader

#: No cycle says so much; the sweep ends when a cycle came to its end without being cut.
_MOST_MESSAGES = 100


@pytest.fixture
def line(database_url: str, server_folder: Path) -> Iterator[PostgresLine]:
    with PostgresLine(database_url, server_folder) as line:
        yield line


@pytest.fixture
def leader(site: Site, line: PostgresLine, client: redis.Redis, clock: VirtualClock) -> Iterator[Leader]:
    leader = Leader(line.url, client, clock=clock, settings=Settings(), name="w1")
    yield leader
    leader.abandon()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_takeover", [False, True], ids=["cycle", "takeover"])
@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "carried out"])
def test_a_cut_at_any_message_of_a_cycle_loses_and_doubles_nothing(
    site: Site, leader: Leader, line: PostgresLine, client: redis.Redis, is_takeover: bool, is_heard: bool
) -> None:
    """L4, R3, W3: whether PostgreSQL had carried it out or not. In each round one group has ended and
    one waits for its places."""
    before = site.submit(spec=gang(2, 8))[0]
    assert leader.run_cycle().admitted == 1
    for number in range(1, _MOST_MESSAGES):
        if is_takeover:
            leader.abandon()
        [group] = site.submit(spec=gang(2, 8))
        site.end(unit_id(before, 0))
        cut = CutAt(number)
        (line.after if is_heard else line.before)(b"", cut)

        run_until_admitted(site, leader, group)

        line.heal()
        assert leader.run_cycle().is_settled
        assert site.rows(
            "SELECT count(*) FROM events WHERE kind = 'Admitted' AND group_id = :g", g=group
        ) == [(1,)], number
        assert holders(client) == {(unit_id(group, 0), 1)}, number
        assert site.held() == 16, number
        assert_books_agree(site, client)
        before = group
        if not cut.has_cut:
            break
    else:
        raise AssertionError("the sweep has no end")
    assert number > 4, "it cut something"


def run_until_admitted(site: Site, leader: Leader, group: int) -> None:
    """As the worker does: what fails is tried again."""
    for _ in range(4):
        try:
            leader.run_cycle()
        except SQLAlchemyError:
            continue
        if site.statuses()[unit_id(group, 0)] == "Admitted":
            return
    raise AssertionError(f"group {group} is not admitted")


def count_admissions(site: Site, group: int) -> int:
    [row] = site.rows("SELECT count(*) AS n FROM events WHERE kind = 'Admitted' AND group_id = :id", id=group)
    return int(row.n)
