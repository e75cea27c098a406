"""What all commands of one call share: where the server is and how to print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from service.cli.printer import Printer

if TYPE_CHECKING:
    from service.client import Client
    from service.client.address import Address

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Session:
    """`environ` is the caller's environment."""

    environ: Mapping[str, str]
    url: str | None = None
    data: Path | None = None
    is_json: bool = False
    has_color: bool = True

    def client(self) -> Client:
        """A client for the server that the options or the environment name."""
        from service.client import Client

        return Client(self.address())

    def address(self) -> Address:
        """Where that server is, and the key for it."""
        from service.client.address import find_address

        return find_address(self.environ, url=self.url, data=self.data)

    def data_folder(self) -> Path:
        from service.client.address import find_data_folder

        return (self.data or find_data_folder(self.environ)).absolute()

    @property
    def out(self) -> Printer:
        return Printer(is_json=self.is_json, has_color=self.is_colored)

    @property
    def is_colored(self) -> bool:
        """Unless `--no-color` or NO_COLOR forbids it."""
        return self.has_color and not self.environ.get("NO_COLOR")


pass_session = click.make_pass_decorator(Session)


def print_options(command: Command) -> Command:
    """`--json` behind the command's name means the same as before it."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_json,
        help="Print JSON, for programs.",
    )(command)


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Session).is_json = True
