"""`muster cohorts`: queues that lend to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli.amounts import (
    NAMES,
    list_bounds,
    list_limit,
    list_used,
    ordered,
    show_amount,
    show_bound,
)
from service.cli.completing import complete_cohorts
from service.cli.model_hints import hint_at_models
from service.cli.printer import Cell, Column
from service.cli.queue_options import COHORT, changes_of, fields_of, with_options
from service.cli.session import Session, pass_session, print_options
from service.cli.sharers import lending, show_deleted, show_rows, show_settings
from service.cli.spans import number

if TYPE_CHECKING:
    from service.client.cohorts import Cohort

_COLUMNS = (
    Column("cohort", is_cut=True),
    Column("weight", align="right"),
    Column("resource"),
    Column("used", align="right"),
    Column("total", align="right"),
    Column("own", align="right"),
    Column("borrowed", align="right"),
    Column("borrows", align="right"),
    Column("lends", align="right"),
    Column("queues", is_cut=True),
)


@click.group(invoke_without_command=True)
@print_options
@click.pass_context
def cohorts(ctx: click.Context) -> None:
    """List, make and change cohorts."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_cohorts)


@cohorts.command(name="list")
@print_options
@pass_session
def list_cohorts(session: Session) -> None:
    """List cohorts as a tree, with what is in them and what that holds."""
    with session.client() as client:
        found = client.cohorts.list()
    if session.is_json:
        session.out.json({"cohorts": found})
    elif not found:
        session.out.note("There are no cohorts.")
    else:
        _show(session, found)


@cohorts.command()
@click.argument("name", shell_complete=complete_cohorts)
@print_options
@pass_session
def show(session: Session, *, name: str) -> None:
    """Show everything that is set for a cohort, and what is in it."""
    with session.client() as client:
        cohort = client.cohorts.get(name)
    show_settings(session.out, cohort, _pairs(cohort))


@cohorts.command()
@click.argument("name")
@with_options(COHORT)
@print_options
@pass_session
def create(session: Session, /, *, name: str, **changes: Any) -> None:
    """Make a cohort (admin)."""
    fields = fields_of(changes, COHORT)
    with session.client() as client:
        _show_one(session, client.cohorts.create(name, fields))
        hint_at_models(session, client, [fields])


@cohorts.command()
@click.argument("name", shell_complete=complete_cohorts)
@with_options(COHORT)
@print_options
@pass_session
def update(session: Session, /, *, name: str, **changes: Any) -> None:
    """Change a cohort (admin). --quota, --borrow and --lend replace all that was set.

    Lowering a quota evicts nobody.
    """
    fields = changes_of(changes, COHORT)
    with session.client() as client:
        _show_one(session, client.cohorts.update(name, fields))
        hint_at_models(session, client, [fields])


@cohorts.command()
@click.argument("name", shell_complete=complete_cohorts)
@print_options
@pass_session
def delete(session: Session, *, name: str) -> None:
    """Delete a cohort (admin) that nothing is in."""
    with session.client() as client:
        cohort = client.cohorts.delete(name)
    show_deleted(session.out, cohort, f"Deleted the cohort {cohort.name}.")


def _show_one(session: Session, cohort: Cohort) -> None:
    if session.is_json:
        session.out.json(cohort)
    else:
        _show(session, [cohort])


def _show(session: Session, found: Sequence[Cohort]) -> None:
    if not session.out.is_terminal:
        session.out.table((), [_fields(cohort) for cohort in found])
        return
    rows = [row for depth, cohort in _tree(found) for row in _rows(cohort, depth)]
    show_rows(session.out, _COLUMNS, rows)


def _tree(found: Sequence[Cohort]) -> Iterator[tuple[int, Cohort]]:
    """Each with its depth, behind its parent; roots are those whose parent is not among them."""
    names = {cohort.name for cohort in found}

    def below(parent: str | None, depth: int) -> Iterator[tuple[int, Cohort]]:
        for cohort in found:
            if (cohort.parent if cohort.parent in names else None) == parent:
                yield depth, cohort
                yield from below(cohort.name, depth + 1)

    return below(None, 0)


def _rows(cohort: Cohort, depth: int) -> list[list[Cell]]:
    """One row for each resource; what is true of the whole cohort is said in the first."""
    rows = [_row(cohort, name) for name in ordered({*cohort.used, *cohort.total_quota})]
    rows = rows or [["", "", "-", "-", "-", "-", "", "", "", ""]]
    rows[0][0], rows[0][1] = "  " * depth + cohort.name, number(cohort.weight)
    rows[0][-1] = ", ".join(cohort.queues)
    return rows


def _row(cohort: Cohort, name: str) -> list[Cell]:
    """A column that says no more for any resource stays empty."""
    return [
        "",
        "",
        NAMES.get(name, name),
        show_amount(cohort.used, name),
        show_bound(cohort.total_quota, name),
        show_amount(cohort.nominal_quota, name),
        show_amount(cohort.borrowed, name) if cohort.borrowed else "",
        show_bound(cohort.borrowing_limit, name) if cohort.borrowing_limit else "",
        show_bound(cohort.lending_limit, name) if cohort.lending_limit else "",
        "",
    ]


def _fields(cohort: Cohort) -> list[Cell]:
    return [
        cohort.name,
        cohort.parent or "-",
        number(cohort.weight),
        list_used(cohort.used),
        list_bounds(cohort.total_quota),
        list_bounds(cohort.nominal_quota),
        list_bounds(cohort.borrowing_limit),
        list_bounds(cohort.lending_limit),
        ", ".join(cohort.queues) or "-",
    ]


def _pairs(cohort: Cohort) -> list[tuple[str, str]]:
    return [
        ("cohort", cohort.name),
        ("parent", cohort.parent or "-"),
        ("weight", number(cohort.weight)),
        ("quota", list_limit(cohort.nominal_quota, "nothing of its own")),
        *lending(cohort, is_in_cohort=cohort.parent is not None),
        ("cohorts", ", ".join(cohort.cohorts) or "-"),
        ("queues", ", ".join(cohort.queues) or "-"),
        ("in all", list_bounds(cohort.total_quota)),
        ("uses", list_used(cohort.used)),
        ("borrowed", list_used(cohort.borrowed)),
    ]
