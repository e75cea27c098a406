"""Philly traces replayed by the real cycle, beside figures that others computed for the same files.

The reference knows four rules: FIFO stops at a blocked head, first-fit goes on behind it, EASY goes on as
long as that does not delay the head, and SJF has the shortest first and stops at a blocked one. It counts
GPUs under `gpus` (one node has them all), and nodes of 8 under `nodes`. What it says of EASY it computed with
a reservation of a number of GPUs, also under `nodes`; here nodes are reserved, so EASY is compared under
`gpus` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import fmean, median

import pytest

from simulation.groups import Spread
from simulation.outcome.outcome import Outcome
from tests.traces.sites import RULES, pool_site, read_trace, replayed, vc_nodes, vc_site


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Seconds. `nodes` None: a pool for each virtual cluster. `within`: part by which a mean may differ.
    `is_long`: takes minutes."""

    trace: str
    nodes: int | None
    spread: Spread
    rule: str
    mean: float
    middle: float
    p99: float
    big: float
    within: float = 0.01
    is_long: bool = False

    @property
    def name(self) -> str:
        where = "pools" if self.nodes is None else f"{self.nodes}x8"
        return f"{self.trace}-{where}-{self.spread.value}-{self.rule}"


def _row(text: str, *, within: float = 0.01, is_long: bool = False) -> Row:
    trace, where, spread, rule, mean, middle, p99, big = text.split()
    return Row(
        trace=trace,
        nodes=None if where == "pools" else int(where),
        spread=Spread(spread),
        rule=rule,
        mean=float(mean),
        middle=float(middle),
        p99=float(p99),
        big=float(big),
        within=within,
        is_long=is_long,
    )


#: Mean wait, p50 and p99 of it, and the mean wait of groups of more than 8 GPUs.
ROWS = (
    _row("ci 64 gpus FIFO 91700 90140 289585 65195"),
    _row("ci 64 gpus first-fit 55666 42332 364253 256034"),
    _row("ci 64 gpus EASY 76494 78637 286234 63231", within=0.05),
    _row("ci 64 gpus SJF 39506 1726 302443 16443"),
    _row("ci 64 nodes FIFO 111722 127651 329570 90679"),
    _row("ci 64 nodes first-fit 59632 33342 442648 308854"),
    _row("ci 64 nodes SJF 46279 3160 341571 32765"),
    _row("ci 48 nodes FIFO 262144 317424 652797 236004"),
    _row("ci 48 nodes first-fit 123967 82394 782671 618012"),
    _row("ci pools nodes FIFO 43 0 0 0"),
    _row("ci pools nodes first-fit 43 0 0 0"),
    _row("ci pools nodes SJF 43 0 0 0"),
    _row("15k pools gpus FIFO 6378 0 199611 5147"),
    _row("15k pools gpus EASY 5411 0 179730 4684", within=0.05),
    _row("15k pools gpus SJF 3231 0 86025 4026"),
    _row("15k pools nodes FIFO 9397 0 227095 6087"),
    _row("15k 128 gpus FIFO 670096 848322 1129554 639932"),
    _row("15k 128 gpus first-fit 168654 36595 1968591 1665966"),
    _row("15k 128 gpus EASY 619313 736043 1113706 633089", within=0.05, is_long=True),
    _row("15k 128 gpus SJF 70828 3160 2244871 51694"),
    _row("15k 128 nodes FIFO 940396 1197875 1504599 955423"),
    _row("82k 64 gpus FIFO 475754 504182 869335 378354", is_long=True),
    _row("82k 64 gpus first-fit 122373 65240 531321 1262693", is_long=True),
    _row("82k 64 gpus SJF 11830 1115 122408 34538", is_long=True),
    _row("82k 64 nodes FIFO 835090 783470 1429826 869816", is_long=True),
    _row("82k 96 gpus FIFO 1342 0 30498 1086", is_long=True),
    _row("82k 96 gpus EASY 1150 0 19984 1027", within=0.05, is_long=True),
    _row("82k 96 nodes FIFO 2480 0 41036 3502"),
)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
@pytest.mark.timeout(900)
def test_a_row_of_the_reference(row: Row, philly: Path, runs_all: bool) -> None:
    if row.is_long and not runs_all:
        pytest.skip("takes minutes: run with --all-rows")
    outcome = _replay(row, philly)
    waits = sorted(each.wait_seconds or 0.0 for each in outcome)
    big = [each.wait_seconds or 0.0 for each in outcome if each.gpus > 8]
    found = (fmean(waits), median(waits), waits[int(0.99 * len(waits))], fmean(big))
    print(f"{row.name}: {found}, {outcome.cycles} cycles in {outcome.cpu_seconds:.1f} s")
    assert all(each.fate.has_ended for each in outcome)
    assert isclose(found[0], row.mean, rel_tol=row.within, abs_tol=0.5)
    assert isclose(found[3], row.big, rel_tol=row.within, abs_tol=0.5)


@pytest.mark.parametrize(
    ("rule", "mean", "middle", "completion"),
    [("FIFO", 111_722, 127_651, 276_610), ("SJF", 46_279, 3_160, 211_167)],
)
def test_what_others_published_is_met_to_the_second(
    rule: str, mean: int, middle: int, completion: int, philly: Path
) -> None:
    """The published simulator of others was run on this very file, too."""
    row = next(row for row in ROWS if row.name == f"ci-64x8-nodes-{rule}")
    outcome = _replay(row, philly)
    waits = [each.wait_seconds or 0.0 for each in outcome]
    assert (round(fmean(waits)), median(waits)) == (mean, middle)
    durations = [(each.ended_at or 0.0) - each.submitted_at for each in outcome]
    assert round(fmean(durations)) == completion


def _replay(row: Row, philly: Path) -> Outcome:
    rule = RULES[row.rule]
    log = read_trace(philly, row.trace, knows_times=rule.knows_times)
    if row.nodes is None:
        site = vc_site(vc_nodes(philly), rule, row.spread)
    else:
        site = pool_site(row.nodes, rule, row.spread)
    return replayed(log, site, row.spread)
