"""`muster priorities`: names for priorities."""

from __future__ import annotations

import rich_click as click

from service.cli.printer import Column
from service.cli.session import Session, pass_session, print_options

_COLUMNS = (Column("class"), Column("priority", align="right"))


@click.group(invoke_without_command=True)
@print_options
@click.pass_context
def priorities(ctx: click.Context) -> None:
    """List, set and delete priority classes: names that a group may give as its priority."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_priorities)


@priorities.command(name="list")
@print_options
@pass_session
def list_priorities(session: Session) -> None:
    """List priority classes, the highest first."""
    with session.client() as client:
        found = client.priority_classes.list()
    if session.is_json:
        session.out.json({"priority_classes": found})
    elif not found:
        session.out.note("There are no priority classes.")
    else:
        session.out.table(_COLUMNS, [(each.name, str(each.value)) for each in found])


@priorities.command(name="set", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("value", type=int)
@print_options
@pass_session
def set_priority(session: Session, *, name: str, value: int) -> None:
    """Let NAME stand for the priority VALUE (admin). Groups that are there keep theirs."""
    with session.client() as client:
        made = client.priority_classes.put(name, value)
    if session.is_json:
        session.out.json(made)
    else:
        session.out.line(f"{made.name} is priority {made.value} for groups from now on.")


@priorities.command()
@click.argument("name")
@print_options
@pass_session
def delete(session: Session, *, name: str) -> None:
    """Delete a priority class (admin). Groups that are there keep their priority."""
    with session.client() as client:
        gone = client.priority_classes.delete(name)
    if session.is_json:
        session.out.json(gone)
    else:
        session.out.line(f"Deleted the priority class {gone.name}.")
