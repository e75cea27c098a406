"""Logs of a process: one JSON object a line, or lines for people at a terminal."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

from service.settings import Settings

#: What libraries say at INFO is of no use to an operator.
_QUIET = ("alembic", "rq", "uvicorn.access", "uvicorn.error")


def configure_logs(settings: Settings, *, name: str) -> None:
    """Everything goes to standard error. `log_format` is `json`, `text`, or `auto`: text at a terminal."""
    is_text = settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _renderer(is_text=is_text),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for each in _QUIET:
        logging.getLogger(each).setLevel(max(logging.WARNING, root.level))
    structlog.contextvars.bind_contextvars(process=name)


def _renderer(*, is_text: bool) -> Processor:
    return structlog.dev.ConsoleRenderer() if is_text else structlog.processors.JSONRenderer()
