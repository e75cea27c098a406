"""`muster audit`."""

from __future__ import annotations

import rich_click as click

from service.cli import exits
from service.cli.printer import Column
from service.cli.session import Session, pass_session, print_options

_COLUMNS = (
    Column("finding"),
    Column("node"),
    Column("gpu", align="right"),
    Column("group"),
    Column("attempt", align="right"),
    Column("message", is_whole=False),
)


@click.command()
@print_options
@pass_session
def audit(session: Session) -> int:
    """Compare the books, the live inventory and what really runs (operator).

    Exit code 7 if anything differs.
    """
    with session.client() as client:
        found = client.audit()
    code = exits.OK if found.is_clean else exits.BROKEN
    out = session.out
    if out.is_json:
        out.json(found)
        return code
    rows = [
        (
            (finding.kind, style),
            finding.node,
            "-" if finding.device is None else str(finding.device),
            finding.group or "-",
            "-" if finding.attempt is None else str(finding.attempt),
            finding.message,
        )
        for findings, style in ((found.drift, "red"), (found.releasing, "dim"))
        for finding in findings
    ]
    if rows:
        out.table(_COLUMNS, rows)
    verdict = "Clean" if found.is_clean else f"{len(found.drift)} differences"
    out.note(
        f"{verdict}: {found.gpus_total} GPUs = {found.gpus_held} held + {found.gpus_free} free"
        f" + {found.gpus_lost} lost."
    )
    return code
