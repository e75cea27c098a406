"""`muster submit`: groups from a file."""

from __future__ import annotations

import rich_click as click

from service.cli.session import Session, pass_session, print_options
from service.cli.submitting import submit_groups


@click.command()
@click.argument("file")
@click.option("--watch", "-w", is_flag=True, help="Follow the groups to their end; the exit code tells it.")
@click.option("--key", metavar="TEXT", help="Idempotency-Key: a repeated submit makes no second group.")
@print_options
@pass_session
def submit(session: Session, *, file: str, watch: bool, key: str | None) -> int:
    """Submit the groups of FILE: YAML or JSON, `-` for standard input.

    A file holds one group, a list of groups, or several YAML documents. Several are taken all together
    or not at all, in their order. Prints the ids.
    """
    from service.cli.files import read_group_file

    groups = read_group_file(file)
    with session.client() as client:
        return submit_groups(client, groups, session.out, is_watched=watch, key=key)
