"""`muster submit`: groups from a file."""

from __future__ import annotations

import rich_click as click

from service.cli.checking import check_groups, dry_run_option
from service.cli.session import Session, pass_session, print_options
from service.cli.submitting import submit_groups


@click.command()
@click.argument("file")
@click.option("--watch", "-w", is_flag=True, help="Follow the groups to their end; the exit code tells it.")
@click.option("--key", metavar="TEXT", help="Idempotency-Key: a repeated submit makes no second group.")
@dry_run_option
@print_options
@pass_session
def submit(session: Session, *, file: str, watch: bool, key: str | None, is_dry_run: bool) -> int:
    """Submit the groups of FILE: YAML or JSON, `-` for standard input.

    A file holds one group, a list of groups, or several YAML documents. Several are taken all together
    or not at all, in their order. Prints the ids. With --dry-run each is asked for as if it alone were
    submitted: in a pipe name, would and why, apart by tabs; the exit code is 6 if one would be refused.
    """
    from service.cli.files import read_group_file

    groups = read_group_file(file)
    with session.client() as client:
        if is_dry_run:
            return check_groups(client, groups, session.out)
        return submit_groups(client, groups, session.out, is_watched=watch, key=key)
