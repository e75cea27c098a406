"""Logs of a process: one JSON object a line, or lines for people at a terminal."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from typing import BinaryIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from service.outages import shorten_outage
from service.settings import Settings

#: What libraries say at INFO is of no use to an operator.
_QUIET = ("alembic", "rq", "uvicorn.access", "uvicorn.error")

_encoder = msgspec.json.Encoder(enc_hook=repr)


def configure_logs(settings: Settings, *, name: str) -> None:
    """Everything goes to standard error. `log_format` is `json`, `text`, or `auto`: text at a terminal."""
    is_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    root = logging.getLogger()
    root.setLevel(settings.log_level.upper())
    _configure_own(shared, level=root.level, is_text=is_text)
    root.handlers[:] = [_handler_of_libraries(shared, is_text=is_text)]
    for each in _QUIET:
        logging.getLogger(each).setLevel(max(logging.WARNING, root.level))
    structlog.contextvars.bind_contextvars(process=name)


def _configure_own(shared: list[Processor], *, level: int, is_text: bool) -> None:
    """Straight to the stream: the API writes a line for each request, and the way through `logging` and
    back takes several times as long as the line itself."""
    structlog.configure(
        processors=[*shared, *([structlog.dev.ConsoleRenderer(), _encoded] if is_text else [_json_line])],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", Lines(sys.stderr.buffer))),
        cache_logger_on_first_use=True,
    )


class Lines:
    """A stream of which a line is lost that cannot be written, because a disk is full or nobody reads: who
    said it goes on with its work."""

    def __init__(self, stream: BinaryIO) -> None:
        # Without the buffer, which would keep the line and fail again, at the latest when the process ends.
        self._raw: BinaryIO = getattr(stream, "raw", stream)

    def write(self, line: bytes) -> int:
        rest = memoryview(line)
        with suppress(OSError):
            while rest:
                rest = rest[self._raw.write(rest) :]
        return len(line)

    def flush(self) -> None:
        """There is nothing between this and the stream."""


def _handler_of_libraries(shared: list[Processor], *, is_text: bool) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(shorten_outage)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.dev.ConsoleRenderer() if is_text else structlog.processors.JSONRenderer(),
            ],
        )
    )
    return handler


def _encoded(_logger: WrappedLogger, _method: str, text: str) -> bytes:
    return text.encode(errors="replace")


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    try:
        return _encoder.encode(event)
    except (UnicodeEncodeError, OverflowError, TypeError):
        # Broken names of files and such: JSON of the standard library escapes what is no UTF-8.
        return json.dumps(event, default=repr).encode()
