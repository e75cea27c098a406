"""`muster api`, `worker`, `dispatcher`, `ticker`, `migrate`: single processes, set by MUSTER_* variables.

What a process needs is imported when it is started, so that no other command pays for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    from service.settings import Settings


@click.command()
def api() -> None:
    """Serve the HTTP API (MUSTER_HOST, MUSTER_PORT)."""
    from service.api.server import run

    run(_prepare("api"))


@click.command()
def worker() -> None:
    """Run admission cycles (RQ worker)."""
    from workers.worker import run

    run(_prepare("worker"))


@click.command()
def dispatcher() -> None:
    """Launch and watch the members of one pool."""
    from workers.dispatch import run

    run(_prepare("dispatcher"))


@click.command()
def ticker() -> None:
    """Wake the admission cycle at a steady pace."""
    from workers.ticker import run

    run(_prepare("ticker"))


@click.command()
@click.option(
    "--restored",
    is_flag=True,
    help="The database was just restored from a dump: numbers that were given out since are skipped.",
)
def migrate(*, restored: bool) -> None:
    """Bring the database to the newest schema."""
    from service.store.migrate import skip_numbers, upgrade

    settings = _prepare("migrate")
    upgrade(settings.database_url)
    if restored:
        skip_numbers(settings.database_url)


def _prepare(name: str) -> Settings:
    """The settings of the environment; logs are set up by them."""
    import structlog

    from service import points
    from service.logs import configure_logs
    from service.settings import settings_from

    try:
        settings = settings_from(os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    configure_logs(settings, name=name)
    if points.is_set():
        # For tests only: whoever finds it in a log of his should know why his processes end.
        structlog.get_logger(__name__).warning(
            "crash_point_set", variable=points.VARIABLE, value=os.environ[points.VARIABLE]
        )
    return settings
