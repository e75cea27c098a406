"""`muster simulate`: what policies would have made of a log, side by side.

What counts and draws is an extra of the package, and is imported when it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from service.cli import exits
from service.cli.pipes import write_line
from service.cli.session import Session, pass_session, print_options

if TYPE_CHECKING:
    from simulation.logs.reading import Format
    from simulation.report.comparison import Comparison
    from simulation.trial.trial import Question

_EXTRA = ("jinja2", "matplotlib", "numpy")
_FORMATS = ("csv", "swf", "sacct", "history")
_REPORT = Path("muster-simulation.html")


class ExtraMissing(click.ClickException):
    """What the command counts and draws with is not installed."""

    exit_code = exits.BROKEN


class NotReplayed(click.ClickException):
    """A file is wrong, or nothing of the log can be replayed, or there is no place for what came of it."""

    exit_code = exits.USAGE


class Factors(click.ParamType[tuple[float, float]]):
    """A range of factors: 1-5."""

    name = "LEAST-MOST"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        least, dash, most = str(value).partition("-")
        try:
            factors = float(least), float(most if dash else least)
        except ValueError:
            self.fail(f"{value!r} is no range of factors, such as 1-5", param, ctx)
        if not 1 <= factors[0] <= factors[1] < 1000:
            self.fail(f"{value!r}: the factors lie between 1 and 1000, the smaller one first", param, ctx)
        return factors


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_OUTPUT = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("log", type=_FILE)
@click.option("-c", "--cluster", type=_FILE, required=True, help="The nodes: a YAML file.")
@click.option(
    "-p",
    "--policy",
    "policies",
    required=True,
    multiple=True,
    metavar="FILE|NAME",
    help="A policy file, as of `muster apply`, or one that comes along, such as fifo; several to compare.",
)
@click.option("--format", "log_format", type=click.Choice(_FORMATS), help="Else by what the log looks like.")
@click.option("--spec", type=_FILE, help="What the columns of a CSV file mean: a YAML file.")
@click.option(
    "--layout",
    type=click.Choice(("nodes", "gpus")),
    default="nodes",
    show_default=True,
    help="Members are whole nodes and what is left, or single GPUs.",
)
@click.option(
    "--wrong-limits",
    type=Factors(),
    metavar="LEAST-MOST",
    help="Make time limits: the real run time times a factor of this range, such as 1-5, rounded up.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of whatever is drawn.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes.")
@click.option("-o", "--output", type=_OUTPUT, default=_REPORT, show_default=True, help="The page to write.")
@click.option("--figures", type=_OUTPUT, help="Write all figures to this file, as JSON.")
@print_options
@pass_session
def simulate(  # noqa: PLR0913 - each is an option
    session: Session,
    /,
    *,
    log: Path,
    cluster: Path,
    policies: Sequence[str],
    log_format: Format | None,
    spec: Path | None,
    layout: str,
    wrong_limits: tuple[float, float] | None,
    seed: int,
    jobs: int,
    output: Path,
    figures: Path | None,
) -> None:
    """Replay a log of jobs under one policy or several, and compare them.

    LOG is an export of sacct, a file of the Standard Workload Format, a history of Muster, or any CSV file
    with --spec. The planner is the one that decides for real, on a virtual clock; no server is asked and
    nothing runs. It prints one table and writes one page with pictures.
    """
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise ExtraMissing(
            f"muster simulate needs {', '.join(missing)}; install its extra: pip install 'muster[simulate]'"
        )
    from simulation.groups import Spread
    from simulation.trial.trial import Question

    question = Question(
        log=log,
        log_format=log_format,
        spec=spec,
        cluster=cluster,
        spread=Spread(layout),
        wrong_limits=wrong_limits,
        seed=seed,
    )
    _check_place(output, figures)
    comparison = _replay(session, question, policies, processes=jobs)
    _write(comparison, output, figures)
    _show(session, comparison, output)


def _check_place(*places: Path | None) -> None:
    """Before hours of replaying, not after them."""
    for place in places:
        if place is not None and not place.absolute().parent.is_dir():
            raise NotReplayed(f"{place} cannot be written: there is no folder {place.absolute().parent}")


def _replay(session: Session, question: Question, policies: Sequence[str], *, processes: int) -> Comparison:
    from service.cli.replaying import watched
    from simulation.logs.log import LogWrong
    from simulation.replay.run import NothingToReplay
    from simulation.sites.site import SiteWrong
    from simulation.trial.contest import run_contest

    is_shown = sys.stderr.isatty() and not session.is_json
    try:
        with watched(
            policies, is_shown=is_shown, has_color=session.is_colored, are_together=processes > 1
        ) as watcher:
            return run_contest(question, policies, watcher, processes=processes)
    except (LogWrong, SiteWrong, NothingToReplay) as error:
        raise NotReplayed(str(error)) from None


def _write(comparison: Comparison, output: Path, figures: Path | None) -> None:
    from simulation.report.comparison import to_json
    from simulation.report.page.page import page_of

    try:
        output.write_text(page_of(comparison), encoding="utf-8")
        if figures is not None:
            figures.write_bytes(to_json(comparison))
    except OSError as error:
        raise NotReplayed(f"{error.filename} cannot be written: {error.strerror}") from None


def _show(session: Session, comparison: Comparison, output: Path) -> None:
    from service.cli.replaying import print_table
    from simulation.report.comparison import to_json

    if session.is_json:
        write_line(sys.stdout, to_json(comparison).decode().rstrip())
        return
    print_table(session.out, comparison)
    for each in comparison.log.left_out:
        session.out.note(f"{each.count:,} left out: {each.text} (first: {each.where})")
    for not_taken in comparison.not_taken:
        for each in not_taken.rows:
            session.out.note(
                f"{each.count:,} left out under {not_taken.policy}: {each.text} (first: {each.where})"
            )
    for warning in comparison.warnings:
        session.out.note(f"Note: {warning}")
    session.out.note(f"The page with pictures: {output}")
