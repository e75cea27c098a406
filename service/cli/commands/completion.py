"""`muster completion SHELL`."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options, groups, queues and nodes.

    bash, in ~/.bashrc: eval "$(muster completion bash)"

    zsh, in ~/.zshrc behind compinit: eval "$(muster completion zsh)"

    fish: muster completion fish > ~/.config/fish/completions/muster.fish
    """
    from service.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "muster", "_MUSTER_COMPLETE").source(), nl=False)
