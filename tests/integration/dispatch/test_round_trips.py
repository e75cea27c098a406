"""What a pass costs PostgreSQL does not depend on how much there is to launch and to record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.integration.dispatch.site import START, Site

#: Reading, the claim, and the record: epoch, group locks, unit locks, progress or ends and releases, events.
LAUNCHING, ENDING = 7, 7


class Counted:
    def __init__(self) -> None:
        self.statements: list[str] = []


Count = Callable[[], AbstractContextManager[Counted]]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Every statement that goes to the driver, in whatever way."""
    execute = psycopg.Cursor.execute
    counts: list[Counted] = []

    def counting(self: psycopg.Cursor[Any], query: Any, *args: Any, **options: Any) -> Any:
        for count in counts:
            count.statements.append(query.decode() if isinstance(query, bytes) else str(query))
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counting)

    @contextmanager
    def count() -> Iterator[Counted]:
        counts.append(Counted())
        yield counts[-1]
        counts.pop()

    return count


@pytest.mark.parametrize("many", [1, 6])
def test_a_pass_has_as_many_statements_for_many_attempts_as_for_one(
    site: Site, counted: Count, many: int
) -> None:
    # What is done once a second besides is not what is counted.
    site.pass_at(1)
    units = [site.admit(f"g{n}", [("n1", (n,)), ("n2", (n,))]) for n in range(many)]
    at = START + timedelta(seconds=1.2)

    site.clock.move_to(at)
    with counted() as launching:
        site.dispatcher.pass_once()
    assert [site.status(unit) for unit in units] == ["Running"] * many

    for unit in units:
        site.cluster.end(unit.name)
    site.clock.move_to(at + timedelta(seconds=0.2))
    with counted() as ending:
        site.dispatcher.pass_once()
    assert [site.status(unit) for unit in units] == ["Succeeded"] * many

    assert (len(launching.statements), len(ending.statements)) == (LAUNCHING, ENDING)
