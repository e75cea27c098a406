"""The API's process: one uvicorn, one process."""

from __future__ import annotations

import errno
import socket
from typing import cast

import structlog
import uvicorn
from uvicorn._types import ASGIApplication

from service.api.app import create_app
from service.api.request_log import RequestLog
from service.settings import Settings

#: An open stream must not hold up a stop for ever.
_STOP_SECONDS = 5
#: More than the few seconds between two requests of a client that polls.
_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 2048

_log = structlog.get_logger("muster.api")


def run(settings: Settings) -> None:
    """Serve until SIGTERM. Exits with a sentence if the address cannot be taken."""
    listening = _listen(settings.host, settings.port)
    app = create_app(settings)
    config = uvicorn.Config(
        cast("ASGIApplication", RequestLog(app, app.state.request_times)),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        lifespan="on",
    )
    host, port = listening.getsockname()[:2]
    _log.info("listening", host=host, port=port)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Taken before anything else is made, so that a second start says why and leaves nothing behind."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SystemExit(f"Port {port} of {host} is taken. Choose another one (MUSTER_PORT).") from None
        raise SystemExit(f"Cannot listen at {host}, port {port}: {error.strerror or error}") from None
