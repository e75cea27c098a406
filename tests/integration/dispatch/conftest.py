"""A pool whose dispatcher has registered its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.integration.dispatch.site import Site


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    site = Site(engine, tmp_path)
    site.pass_at(0)
    yield site
    site.close()
