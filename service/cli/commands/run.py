"""`muster run`: a gang from flags."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

import rich_click as click

from service.cli.checking import check_groups, dry_run_option
from service.cli.completing import complete_queues
from service.cli.fields import after_of, priority_of
from service.cli.references import find_group_id
from service.cli.session import Session, pass_session, print_options
from service.cli.submitting import submit_groups


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--members", "-n", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option("--gpus", "-g", type=click.IntRange(0), default=0, show_default=True, help="GPUs of each.")
@click.option("--cpus", type=click.FloatRange(0), help="CPUs of each; else one for each GPU, at least one.")
@click.option("--memory-gib", type=click.FloatRange(0), help="Memory of each; else as for CPUs.")
@click.option("--model", "models", multiple=True, help="GPU models that will do, in order of preference.")
@click.option("--fallback-after", metavar="TIME", help="Wait so long for each --model before the next.")
@click.option("--independent", is_flag=True, help="Each member is useful alone; else they are a gang.")
@click.option("--queue", "-q", shell_complete=complete_queues, help="The queue.")
@click.option("--name", help="The name; else that of the command.")
@click.option("--priority", "-p", metavar="NUMBER|CLASS", help="High goes first.")
@click.option("--after", multiple=True, metavar="GROUP[:WHEN]", help="Start when it is ok, not_ok or any.")
@click.option("--not-before", metavar="INSTANT", help="Start no sooner: 2030-01-31T18:00:00Z.")
@click.option("--time-limit", metavar="TIME", help="End it after so long: 90s, 10m, 4h.")
@click.option("--max-restarts", type=click.IntRange(0), help="Restarts after failures of its own.")
@click.option("--env", "-e", multiple=True, metavar="NAME[=VALUE]", help="A variable; else the one here.")
@click.option("--secret", multiple=True, metavar="NAME", help="A variable from here that is kept secret.")
@click.option("--workdir", metavar="DIR", help="Where it runs; else, with a server on this machine, here.")
@click.option("--watch", "-w", is_flag=True, help="Follow it to its end; the exit code tells it.")
@dry_run_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@print_options
@pass_session
def run(session: Session, /, *, watch: bool, is_dry_run: bool, **flags: Any) -> int:
    """Submit COMMAND as a group of --members processes.

    Members are started together or not at all. Each has RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and
    its GPUs in CUDA_VISIBLE_DEVICES. Write `--` before COMMAND: muster run -n 6 -g 1 -- python train.py
    """
    from service.cli.files import GroupFile

    with session.client() as client:
        flags["workdir"] = where_it_runs(flags["workdir"], url=client.address.url)
        flags["after"] = [after_of(text, partial(find_group_id, client)) for text in flags["after"]]
        file = GroupFile((group_of(flags, session.environ),), is_batch=False)
        if is_dry_run:
            return check_groups(client, file, session.out)
        return submit_groups(client, file, session.out, is_watched=watch)


def group_of(flags: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The group that the flags describe; what was not said is left to the server."""
    command = list(flags["command"])
    wanted = {
        "name": flags["name"] or PurePath(command[0]).name or "run",
        "members": flags["members"],
        "gpus": flags["gpus"],
        "cpus": flags["cpus"],
        "memory_gib": flags["memory_gib"],
        "gpu": _gpu(flags),
        "scheduling": "independent" if flags["independent"] else None,
        "queue": flags["queue"],
        "priority": None if flags["priority"] is None else priority_of(flags["priority"]),
        "after": list(flags["after"]) or None,
        "not_before": flags["not_before"],
        "time_limit": flags["time_limit"],
        "recovery": None if flags["max_restarts"] is None else {"max_restarts": flags["max_restarts"]},
        "env": dict(_variable(text, environ) for text in flags["env"]) or None,
        "secrets": {name: _from_here(name, environ) for name in flags["secret"]} or None,
        "workdir": flags["workdir"],
        "command": command,
    }
    return {field: value for field, value in wanted.items() if value is not None}


def _gpu(flags: Mapping[str, Any]) -> dict[str, Any] | None:
    wanted = {"models": list(flags["models"]), "fallback_after": flags["fallback_after"]}
    return {field: value for field, value in wanted.items() if value} or None


def _variable(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    return (name, value) if equals else (name, _from_here(name, environ))


def _from_here(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise click.UsageError(f"the variable {name} is not set here")
    return environ[name]


def where_it_runs(given: str | None, *, url: str) -> str | None:
    """On this machine `given` is a path from this folder, and none is this folder. Elsewhere it goes
    to the server as it is, which refuses a path that is not absolute."""
    if urlsplit(url).hostname not in {"127.0.0.1", "localhost", "::1"}:
        return given
    return str(PurePath(Path.cwd(), given or ""))
