"""`muster show`."""

from __future__ import annotations

import rich_click as click

from service.cli.session import Session, pass_session, print_options


@click.command()
@click.argument("group")
@print_options
@pass_session
def show(session: Session, *, group: str) -> None:
    """Show GROUP."""
