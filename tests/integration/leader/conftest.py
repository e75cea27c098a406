"""A site with two nodes of eight GPUs, and a connection as the leader has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from sqlalchemy import Connection, Engine

from service.clock import VirtualClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_direct_engine
from tests.integration.leader.site import START, Site
from workers.admission import Leader


@pytest.fixture
def site(engine: Engine) -> Site:
    return Site(engine)


@pytest.fixture
def direct_engine(database_url: str) -> Iterator[Engine]:
    engine = make_direct_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def direct(direct_engine: Engine) -> Iterator[Connection]:
    with direct_engine.connect() as conn:
        yield conn


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    client = make_client(redis_url)
    yield client
    client.close()


MakeLeader = Callable[..., Leader]


@pytest.fixture
def make_leader(database_url: str, client: redis.Redis, clock: VirtualClock) -> Iterator[MakeLeader]:
    """Leaders that live by the virtual clock, with a lease of ten seconds."""
    made: list[Leader] = []

    def make(name: str = "w1", **settings: Any) -> Leader:
        leader = Leader(database_url, client, clock=clock, settings=Settings(**settings), name=name)
        made.append(leader)
        return leader

    yield make
    for leader in made:
        leader.abandon()


@pytest.fixture
def leader(site: Site, make_leader: MakeLeader) -> Leader:
    return make_leader()
