"""`muster keys`: who may call."""

from __future__ import annotations

from datetime import datetime

import rich_click as click

from service.cli import exits
from service.cli.printer import Column
from service.cli.session import Session, pass_session, print_options
from service.cli.spans import clock_time, instant
from service.client.errors import ApiError
from service.clock import SystemClock
from service.domain.principal import KeyRole

_COLUMNS = (Column("id"), Column("user"), Column("tenant"), Column("role"), Column("made"), Column("revoked"))


class UnknownKey(click.ClickException):
    """No key is meant."""

    exit_code = exits.NOT_FOUND


@click.group(invoke_without_command=True)
@print_options
@click.pass_context
def keys(ctx: click.Context) -> None:
    """List, make and revoke keys (admin)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_keys)


@keys.command(name="list")
@print_options
@pass_session
def list_keys(session: Session) -> None:
    """List all keys, revoked ones too. The keys themselves are not kept."""
    with session.client() as client:
        found = client.keys.list()
    if session.is_json:
        session.out.json({"keys": found})
        return
    now = SystemClock().now()

    def at(instant_at: datetime | None) -> str:
        if instant_at is None:
            return "-"
        return clock_time(instant_at, today=now) if session.out.is_terminal else instant(instant_at)

    rows = [(key.id, key.user, key.tenant, key.role, at(key.created_at), at(key.revoked_at)) for key in found]
    session.out.table(_COLUMNS, rows)


@keys.command()
@click.argument("user")
@click.option("--tenant", default="default", show_default=True, help="Whose user it is.")
@click.option(
    "--role", type=click.Choice([each.value for each in KeyRole]), default="user", show_default=True
)
@print_options
@pass_session
def create(session: Session, *, user: str, tenant: str, role: str) -> None:
    """Make a key for USER and print it. It is shown this once."""
    with session.client() as client:
        made = client.keys.create(user, tenant=tenant, role=role)
    if session.is_json:
        session.out.json(made)
    else:
        print(made.key)
        session.out.note(f"Key {made.id} of {made.user}; set MUSTER_API_KEY to it. It is not shown again.")


@keys.command()
@click.argument("key_id", metavar="ID")
@print_options
@pass_session
def revoke(session: Session, *, key_id: str) -> None:
    """Refuse a key from now on. ID is what `muster keys` lists, not the key."""
    with session.client() as client:
        try:
            key = client.keys.revoke(key_id)
        except ApiError as error:
            if error.status != 404:
                raise
            # Not repeated: it may be a key itself.
            raise UnknownKey("there is no key with this id; `muster keys` lists the ids") from None
    if session.is_json:
        session.out.json(key)
    else:
        session.out.line(f"Revoked the key {key.id} of {key.user}.")
