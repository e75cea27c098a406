"""`muster apply` and `muster export`: all queues, cohorts and priority classes as one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from service.cli import exits
from service.cli.model_hints import hint_at_models
from service.cli.printer import Cell
from service.cli.session import Session, pass_session, print_options

if TYPE_CHECKING:
    from service.client.errors import ApiError
    from service.client.policy import PolicyChange, PolicyChanges
    from service.client.policy_file import PolicyFile

_SIGNS: dict[str, tuple[str, str]] = {
    "created": ("+", "green"),
    "changed": ("~", "yellow"),
    "deleted": ("-", "red"),
}


class PolicyRefused(click.ClickException):
    """The server does not take it; every place in the file is named."""

    exit_code = exits.REFUSED


class NotWritten(click.ClickException):
    """There is no place for the file."""

    exit_code = exits.USAGE


@click.command()
@click.option(
    "--file", "-f", "path", required=True, metavar="FILE", help="The policy, YAML or JSON; `-`: from a pipe."
)
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--prune", is_flag=True, help="Delete what the file does not name.")
@print_options
@pass_session
def apply(session: Session, *, path: str, dry_run: bool, prune: bool) -> None:
    """Make and change queues, cohorts and priority classes as FILE says, all or nothing (admin).

    What the file leaves out of one of them gets its default. --prune of a file that names nothing is refused.
    In a pipe: one line for each thing that was made, changed or deleted, or for each field of it, apart by
    tabs; how many they are goes to standard error.
    """
    from service.client.errors import ApiError
    from service.client.policy_file import read_policy_file

    file = read_policy_file(path)
    if prune and file.names_nothing:
        raise click.UsageError(f"{file.name} names nothing, so --prune would delete everything that can go")
    with session.client() as client:
        try:
            done = client.policy.apply(file.body, has_prune=prune, is_dry_run=dry_run)
        except ApiError as error:
            if error.status not in (409, 422) or not error.errors:
                raise
            raise _refusal(error, file) from None
        if session.is_json:
            session.out.json(done)
        else:
            _show(session, done)
            hint_at_models(session, client, file.sharers)


@click.command()
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write it there.")
@print_options
@pass_session
def export(session: Session, *, output: Path | None) -> None:
    """Print all queues, cohorts and priority classes as a file for `muster apply` (admin)."""
    from service.client.policy_file import policy_text

    with session.client() as client:
        policy = client.policy.get()
    if session.is_json:
        session.out.json(policy)
    elif output is None:
        sys.stdout.write(policy_text(policy))
    else:
        _write(output, policy_text(policy))


def _write(output: Path, text: str) -> None:
    """What was there before stays until all of it is written."""
    output = output.resolve()
    beside = output.with_name(f".{output.name}.new")
    try:
        if output.exists() and not output.is_file():
            # A pipe, or /dev/stdout: nothing can take its place.
            output.write_text(text, encoding="utf-8")
            return
        beside.write_text(text, encoding="utf-8")
        beside.replace(output)
    except OSError as error:
        raise NotWritten(f"{output} cannot be written: {error.strerror}") from None


def _refusal(error: ApiError, file: PolicyFile) -> PolicyRefused:
    return PolicyRefused("\n".join(file.told(wrong.field, wrong.message) for wrong in error.errors))


def _show(session: Session, done: PolicyChanges) -> None:
    if not session.out.is_terminal:
        rows = [row for change in done.changes for row in _rows(change)]
        session.out.table((), rows)
        session.out.note(_summary(done))
        return
    for change in done.changes:
        sign, style = _SIGNS[change.change]
        session.out.line(f"{sign} {change.kind.replace('_', ' ')} {change.name}", style)
        if change.change != "deleted":
            for field, values in change.fields.items():
                was = "" if change.change == "created" else f"{_text(values.before)} -> "
                session.out.line(f"    {field}: {was}{_text(values.after)}")
    session.out.line(_summary(done))


def _summary(done: PolicyChanges) -> str:
    counts = [
        f"{sum(each.change == change for each in done.changes)} {change}"
        for change in _SIGNS
        if any(each.change == change for each in done.changes)
    ]
    said = ", ".join([*counts, f"{done.unchanged} unchanged"])
    return f"{said}. Nothing was changed (dry run)." if done.is_dry_run else f"{said}."


def _rows(change: PolicyChange) -> list[list[Cell]]:
    """For programs: one row for each field, or one for the whole thing."""
    what: list[Cell] = [change.change, change.kind, change.name]
    fields = change.fields.items() if change.change == "changed" else ()
    return [[*what, field, _text(each.before), _text(each.after)] for field, each in fields] or [what]


def _text(value: Any) -> str:
    """A value as a file says it; what is not said there is the default."""
    if value is None:
        return "default"
    if isinstance(value, dict):
        return ", ".join(f"{name}={amount}" for name, amount in value.items()) or "nothing"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
