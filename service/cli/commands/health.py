"""`muster health KIND`: is the process of this machine or container well? For health checks of containers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits

if TYPE_CHECKING:
    from service.settings import Settings

#: Less than what a container's health check is usually given.
_ANSWER_SECONDS = 2.5
#: Any address that it listens on is also this machine's.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104


@click.command()
@click.argument("kind", type=click.Choice(["api", "worker", "dispatcher", "ticker"]))
def health(kind: str) -> int:
    """Say in a line whether a process is well; exit code 0 or 1.

    `api` is asked whether it and its stores answer (MUSTER_HOST, MUSTER_PORT). Of the others the last sign
    of life in the runtime folder counts (MUSTER_RUNTIME, else in the data folder): it is the main loop's,
    so one that hangs or is frozen is not well after MUSTER_HEALTH_SECONDS.
    """
    from service.settings import settings_from

    try:
        settings = settings_from(os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    is_well, line = _ask_api(settings) if kind == "api" else _look(settings, kind)
    click.echo(line)
    return exits.OK if is_well else exits.UNWELL


def _ask_api(settings: Settings) -> tuple[bool, str]:
    from service.client import Client, ClientError
    from service.client.address import Address

    url = f"http://{_ANYWHERE.get(settings.host, settings.host)}:{settings.port}"
    try:
        with Client(Address(url, None), answer_seconds=_ANSWER_SECONDS) as client:
            client.ready()
    except ClientError as error:
        return False, str(error)
    return True, f"api at {url} and its stores answer"


def _look(settings: Settings, kind: str) -> tuple[bool, str]:
    from workers.health import check

    verdict = check(settings, kind)
    return verdict.is_well, verdict.line
