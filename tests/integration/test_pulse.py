"""A slow statement is waited for; a silent server is not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from service.store.engine import make_engine
from service.store.migrate import upgrade
from service.store.pulse import Pulse


@pytest.fixture
def pulse(database_url: str) -> Iterator[Pulse]:
    pulse = Pulse(database_url)
    pulse.start()
    yield pulse
    pulse.stop()


def test_a_slow_statement_is_no_silence(database_url: str, pulse: Pulse) -> None:
    engine = make_engine(database_url, pulse=pulse)
    with engine.connect() as conn:
        assert conn.execute(text("SELECT 1 FROM pg_sleep(3.5)")).scalar_one() == 1
    assert pulse.is_ready(seconds=5)
    engine.dispose()


def test_what_waits_for_a_silent_server_is_ended(database_url: str, pulse: Pulse) -> None:
    engine = make_engine(database_url, pulse=pulse)
    assert pulse.is_ready(seconds=5)
    # The pulse's own backend is enough: whoever does not answer it is taken for silent.
    with engine.connect() as conn:
        backend = conn.execute(
            text("SELECT pid FROM pg_stat_activity WHERE application_name = 'muster-pulse'")
        ).scalar_one()
        os.kill(backend, signal.SIGSTOP)
        try:
            began_at = time.monotonic()
            with pytest.raises(OperationalError, match="PostgreSQL does not answer"):
                conn.execute(text("SELECT pg_sleep(20)"))
            assert time.monotonic() - began_at < 5
            assert conn.invalidated
        finally:
            os.kill(backend, signal.SIGCONT)
    engine.dispose()


def test_a_server_without_the_schema_is_not_ready_and_not_silent(empty_database_url: str) -> None:
    pulse = Pulse(empty_database_url)
    pulse.start()
    assert not pulse.is_ready(seconds=5)
    assert not pulse.is_silent
    upgrade(empty_database_url)
    assert pulse.is_ready(seconds=5)
    pulse.stop()


def test_a_server_that_refuses_is_not_ready_and_not_silent() -> None:
    pulse = Pulse("postgresql+psycopg://muster@/none?host=/nowhere")
    pulse.start()
    assert not pulse.is_ready(seconds=5)
    assert not pulse.is_silent
    pulse.stop()
