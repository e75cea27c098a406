"""Who calls: `Authorization: Bearer KEY` becomes a Principal, or the answer is 401.

Keys that were found are remembered for a second. So a key that is revoked through another API
process is refused within a second, and one that is revoked through this process at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from litestar.concurrency import sync_to_thread
from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.handlers import BaseRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send
from sqlalchemy import Engine

from service.api.problems import TooManyRequests
from service.api.rates import Rates
from service.domain.errors import NotAllowed, NotAuthenticated
from service.domain.principal import Principal
from service.operations import keys

#: `opt` of the routes that need no key.
PUBLIC = "is_public"

REMEMBERED_SECONDS = 1.0
#: A refusal for too many requests is given after so long.
REFUSAL_SECONDS = 0.1
_MOST_REMEMBERED = 10_000
_LONGEST_KEY = 512


class KeyRing:
    """Principals by digest of their key, remembered for REMEMBERED_SECONDS."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self.revocations = 0

    def remembered(self, digest: bytes) -> Principal | None:
        entry = self._known.get(digest)
        if entry is None or entry[0] < time.monotonic():
            return None
        return entry[1]

    def was_valid(self, digest: bytes) -> bool:
        """It was found when it was last looked for, though it may have been revoked since."""
        return digest in self._known

    def look_up(self, digest: bytes) -> Principal | None:
        """Ask the database. The time counts from before the question, so that it is never stale."""
        until, revocations = time.monotonic() + REMEMBERED_SECONDS, self.revocations
        principal = keys.find_principal(self._engine, digest)
        if principal is not None and revocations == self.revocations:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            self._known[digest] = (until, principal)
        elif principal is None:
            self._known.pop(digest, None)
        return principal

    def forget_all(self) -> None:
        """After a revocation; answers that are on their way from the database are not kept either."""
        self.revocations += 1
        self._known = {}


class Authentication(ASGIMiddleware):
    """Sets `scope["user"]`. Runs before anything of the request's body is read."""

    scopes = (ScopeType.HTTP,)
    exclude_opt_key = PUBLIC

    def __init__(self, ring: KeyRing, rates: Rates) -> None:
        self._ring = ring
        self._rates = rates
        self._asked: dict[tuple[bytes, int], asyncio.Task[Principal | None]] = {}

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        try:
            digest = keys.digest_of(self._bearer(scope))
            scope["user"] = self._ring.remembered(digest) or await self._look_up(scope, digest)
            self._rates.count_request(digest, scope)
        except TooManyRequests:
            # Who asks again at once, without waiting as told, has to wait here.
            await asyncio.sleep(REFUSAL_SECONDS)
            raise
        await next_app(scope, receive, send)

    async def _look_up(self, scope: Scope, digest: bytes) -> Principal:
        """Counted before it is known whether the key is valid: many may ask at once."""
        is_stranger = not self._ring.was_valid(digest)
        if is_stranger:
            self._rates.count_stranger(scope)
        principal = await self._ask(digest)
        if principal is None:
            raise NotAuthenticated("This key is not known, or it was revoked.")
        if is_stranger:
            self._rates.was_no_stranger(scope)
        return principal

    async def _ask(self, digest: bytes) -> Principal | None:
        """One question to the database for all who wait for the same answer; who comes after a revocation
        does not wait for one that was put before it."""
        question = digest, self._ring.revocations
        asked = self._asked.get(question)
        if asked is None:
            asked = asyncio.create_task(sync_to_thread(self._ring.look_up, digest))
            self._asked[question] = asked
            asked.add_done_callback(lambda task: self._forget(question, task))
        return await asyncio.shield(asked)

    def _forget(self, question: tuple[bytes, int], task: asyncio.Task[Principal | None]) -> None:
        self._asked.pop(question, None)
        if not task.cancelled():
            task.exception()  # it is raised for whoever still waits

    def _bearer(self, scope: Scope) -> str:
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = sent.decode("latin-1").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key or len(key) > _LONGEST_KEY:
            self._rates.count_stranger(scope)
            raise NotAuthenticated("Send a key: Authorization: Bearer KEY.")
        return key


def require_operator(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: operators and admins."""
    if not connection.user.is_operator:
        raise NotAllowed("Only an operator or an admin may do this.")


def require_admin(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: admins."""
    if not connection.user.is_admin:
        raise NotAllowed("Only an admin may do this.")
