"""Clients of one application with keys of several roles."""

from __future__ import annotations

from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import Engine

from service.clock import SystemClock
from service.domain.principal import KeyRole
from service.operations.keys import create_key


class Callers:
    """Clients of one running application with keys of other roles."""

    def __init__(self, client: TestClient[Litestar], engine: Engine) -> None:
        self._client = client
        self._engine = engine

    def with_key(self, key: str) -> TestClient[Litestar]:
        client = TestClient(self._client.app, raise_server_exceptions=False)
        client.headers["Authorization"] = f"Bearer {key}"
        # One portal and one lifespan for all.
        client.blocking_portal = self._client.blocking_portal
        return client

    def make(
        self, role: KeyRole, *, tenant: str = "default", user: str | None = None
    ) -> TestClient[Litestar]:
        made = create_key(
            self._engine, tenant=tenant, user=user or role.value, role=role, now=SystemClock().now()
        )
        return self.with_key(made.key)
