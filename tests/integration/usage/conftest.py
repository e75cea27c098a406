"""A pool whose dispatcher has registered its nodes; what it closes is charged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.integration.dispatch.site import Site, registered_site


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    with registered_site(engine, tmp_path) as site:
        yield site
