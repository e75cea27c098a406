"""Choices on the command line are the values that go over the wire, not names of Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rich_click as click

from service.cli.main import cli


def choices(
    command: click.Command, context: click.Context, path: str = ""
) -> Iterator[tuple[str, click.Choice[str]]]:
    for parameter in command.params:
        if isinstance(parameter.type, click.Choice):
            yield f"{path} {parameter.name}".strip(), parameter.type
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from choices(found, context, f"{path} {name}".strip())


ALL = dict(choices(cli, click.Context(cli)))


def test_there_are_choices() -> None:
    assert {"keys create role", "queues create order", "list statuses"} <= ALL.keys()


@pytest.mark.parametrize("name", ALL)
def test_choices_are_texts(name: str) -> None:
    assert [type(choice) for choice in ALL[name].choices] == [str] * len(ALL[name].choices)


def leaves(
    command: click.Command, context: click.Context, path: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something by itself."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, context, f"{path} {name}".strip())


def test_every_command_that_asks_the_server_takes_json() -> None:
    """Those that do not run something here, or print what somebody else wrote."""
    without = {
        path
        for path, command in leaves(cli, click.Context(cli))
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    here = {
        "up",
        "down",
        "backup",
        "restore",
        "version",
        "api",
        "worker",
        "dispatcher",
        "ticker",
        "migrate",
        "health",
        "completion",
    }
    assert without == here | {"logs"}
