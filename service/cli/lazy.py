"""A click group whose commands are imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import rich_click as click


class LazyGroup(click.RichGroup):
    """`lazy` maps a command's name to MODULE:ATTRIBUTE, in the order of the help."""

    def __init__(self, *args: Any, lazy: dict[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = self._lazy.get(cmd_name)
        if place is None:
            return None
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command
