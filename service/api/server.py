"""The API's process: one uvicorn, one process."""

from __future__ import annotations

import uvicorn

from service.api.app import create_app
from service.settings import Settings

#: An open stream must not hold up a stop for ever.
_STOP_SECONDS = 5
#: More than the few seconds between two requests of a client that polls.
_KEEP_ALIVE_SECONDS = 30


def run(settings: Settings) -> None:
    """Serve until SIGTERM."""
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
