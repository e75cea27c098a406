"""A dispatcher whose connection to PostgreSQL ends at every single message, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import SQLAlchemyError

from service.store.engine import make_engine
from tests.integration.dispatch.site import Site, Unit
from tests.lines import CutAt, PostgresLine
from workers.dispatch import Dispatcher
from workers.launchers.simulated import SimulatedLauncher

_MOST_MESSAGES = 200


@pytest.fixture
def line(database_url: str, server_folder: Path) -> Iterator[PostgresLine]:
    with PostgresLine(database_url, server_folder) as line:
        yield line


@pytest.fixture
def distant(site: Site, line: PostgresLine) -> Iterator[Dispatcher]:
    """The dispatcher of the site's pool, behind the line."""
    site.dispatcher.close()
    engine = make_engine(line.url)
    dispatcher = Dispatcher(
        engine,
        SimulatedLauncher(site.cluster, "p1"),
        pool_name="p1",
        clock=site.clock,
        settings=site.settings,
        ring_leader=lambda: None,
        holder="d2",
    )
    yield dispatcher
    dispatcher.close()
    engine.dispose()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "carried out"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["ends", "is cancelled"])
def test_a_cut_at_any_message_launches_and_records_everything_once(
    site: Site, distant: Dispatcher, line: PostgresLine, is_cancelled: bool, is_heard: bool
) -> None:
    """From the claim to the end: claims, what runs, ends and releases, whether PostgreSQL heard or not."""
    assert distant.pass_once() is not None
    for number in range(1, _MOST_MESSAGES):
        unit = site.admit(f"g{number}", [("n1", (0,)), ("n2", (0,))], grace_seconds=0)
        cut = CutAt(number)
        (line.after if is_heard else line.before)(b"", cut)

        pass_until(site, distant, unit, "Running")
        if is_cancelled:
            site.cancel(unit)
        else:
            site.cluster.end(unit.name)
        pass_until(site, distant, unit, "Cancelled" if is_cancelled else "Succeeded")

        line.heal()
        pass_until(site, distant, unit, "Cancelled" if is_cancelled else "Succeeded")
        assert site.launched(unit) == 2, number
        assert site.live(unit) == 0, number
        assert (site.held(), site.attempt(unit)) == (0, None), number
        events = site.events(unit)
        assert events.count("MemberEnded") == 2, (number, events)
        assert events.count("Cancelled" if is_cancelled else "Succeeded") == 1, (number, events)
        row = site.unit(unit)
        assert (row.attempt, row.restarts_used) == (1, 0), number
        if not cut.has_cut:
            break
    else:
        raise AssertionError("the sweep has no end")
    assert number > 8, "it cut something"


def pass_until(site: Site, dispatcher: Dispatcher, unit: Unit, status: str) -> None:
    """As the process does: what fails is tried again."""
    site.clock.advance(1)
    ends_at = time.monotonic() + 10
    while time.monotonic() < ends_at:
        with suppress(SQLAlchemyError, psycopg.Error):
            dispatcher.pass_once()
            if site.status(unit) == status:
                return
        if dispatcher.epoch is None:
            time.sleep(0.005)  # the server has not noticed yet that its client is gone
    raise AssertionError(f"{unit.name} is {site.status(unit)}, not {status}")
