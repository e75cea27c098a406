"""The API's process: one uvicorn, one process."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import socket
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from litestar import Litestar
from uvicorn._types import ASGIApplication

from service.api.app import create_app
from service.api.body import MAX_BODY_BYTES
from service.api.connections import BoundedProtocol, Bounds, Watch
from service.api.event_hub import EventHub
from service.api.refusals import Refusals
from service.api.request_log import RequestLog
from service.settings import Settings

#: An open stream must not hold up a stop for ever.
_STOP_SECONDS = 5
#: More than the few seconds between two requests of a client that polls.
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 2048
#: So many of the largest bodies are received at once; what is more is refused.
_LARGEST_BODIES = 16
#: Files and connections that are not clients': the stores, logs, the process itself.
_OTHER_FILES = 256

#: Ten times as many as usual: those of a large batch die by themselves when it is done.
_OBJECTS_PER_COLLECTION = 7_000

_log = structlog.get_logger("muster.api")


class Server(uvicorn.Server):
    """Ends the streams as soon as it is told to stop: nobody else would, and it waits for them."""

    def __init__(self, config: uvicorn.Config, hub: EventHub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.end_streams()
        await super().shutdown(sockets)


def run(settings: Settings) -> None:
    """Serve until SIGTERM. Exits with a sentence if the address cannot be taken."""
    listening = _listen(settings.host, settings.port)
    server = make_server(create_app(settings), settings)
    host, port = listening.getsockname()[:2]
    _log.info("listening", host=host, port=port)
    _spare_collector()
    server.run(sockets=[listening])


def make_server(app: Litestar, settings: Settings) -> Server:
    """A server of this process for an application that `create_app` made."""
    refusals: Refusals = app.state.refusals
    watch = Watch(_bounds(settings), refusals)
    config = uvicorn.Config(
        cast("ASGIApplication", RequestLog(app, app.state.request_times)),
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, watch=watch)),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        lifespan="on",
        **_proxies(settings),
    )
    return Server(config, app.state.hub)


def _spare_collector() -> None:
    """What is there now stays: looking through it for garbage, each time that a batch has made some
    thousand objects, took a third of the time of a batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)


def _bounds(settings: Settings) -> Bounds:
    """Connections as far as this process may have files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wanted = soft
    return Bounds(
        head_seconds=settings.request_head_seconds,
        body_seconds=settings.request_body_seconds,
        unread_seconds=settings.unread_answer_seconds,
        connections=max(1, wanted - _OTHER_FILES),
        body_bytes=_LARGEST_BODIES * MAX_BODY_BYTES,
    )


def _proxies(settings: Settings) -> dict[str, Any]:
    """Whom a request says that it is for is believed of these only: anybody can write the header."""
    trusted = [each.strip() for each in settings.trusted_proxies.split(",") if each.strip()]
    return {"proxy_headers": bool(trusted), "forwarded_allow_ips": trusted}


def _listen(host: str, port: int) -> socket.socket:
    """Taken before anything else is made, so that a second start says why and leaves nothing behind."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SystemExit(f"Port {port} of {host} is taken. Choose another one (MUSTER_PORT).") from None
        raise SystemExit(f"Cannot listen at {host}, port {port}: {error.strerror or error}") from None
