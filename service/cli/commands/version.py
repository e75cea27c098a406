"""`muster version`."""

from __future__ import annotations

import rich_click as click

import service


@click.command()
def version() -> None:
    """Print the version."""
    click.echo(f"muster {service.__version__}")
