"""The operations page, the dashboard and the alerts speak of what the code has."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.settings_table import with_table
from service.api.metrics import RequestTimes, render
from service.api.refusals import Refusals
from service.inventory.compare import DriftKind
from service.inventory.cycle_stats import CycleStats
from service.inventory.retention_stats import RetentionStats
from service.inventory.timings import Timings
from service.operations.measure import Measurements
from service.store.lease_rows import LeaseRow
from service.store.measure_rows import GpuCount, QueueWait
from tests.unit.test_docs import ROOT, rows, section

PAGE = (ROOT / "docs" / "operations.md").read_text()
NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEVELS = {"debug", "info", "warning", "error"}
#: Of a histogram the page tells the name alone.
HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert with_table(PAGE) == PAGE, "run `make docs`"


# ------------------------------------------------------------------------------------ metrics
def scraped() -> dict[str, tuple[str, set[str]]]:
    """Kind and labels of every sample that a scrape can show, by its name."""
    seconds = [1.0]
    found = Measurements(
        is_store_up=True,
        is_inventory_up=True,
        gpus=(GpuCount(model="m", held=1, free=1, lost=1),),
        waits=(QueueWait(queue="q", groups=1, oldest_at=NOW),),
        groups={"Pending": 1},
        live_units={"Running": 1},
        ends={"Failed": 1},
        leases=(LeaseRow(process="worker", pool="", epoch=1, holder="w", expires_at=NOW),),
        admit_seconds=seconds,
        start_seconds=seconds,
        release_seconds=seconds,
        turnover_seconds=seconds,
        cycles=CycleStats(),
        passes={"p": Timings()},
        retention=RetentionStats(),
        jobs=0,
        pending={"Fragmented": 1},
        drift=0,
    )
    text = (render(found, now=NOW) + _own_metrics() + Refusals().render()).decode()
    return {
        sample.name: (family.type, {*sample.labels})
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _own_metrics() -> bytes:
    """Of an API process. The names that it shows besides stand in its source."""
    times = RequestTimes()
    times.observe(0.1, method="POST", route="/v1/groups", status=201)
    source = (ROOT / "service" / "api" / "app.py").read_text()
    for name in re.findall(r'"(muster_\w+)"', source):
        times.show(name, "", lambda: 0)
    return times.render()


METRICS = scraped()


def test_each_metric_is_told_with_its_labels() -> None:
    told = {row[0].strip("`"): row[1:] for row in rows(section(PAGE, "Metrics"))}
    expected = {
        HISTOGRAM.sub("", name) if kind == "histogram" else name for name, (kind, _) in METRICS.items()
    }
    assert told.keys() == expected
    for name, (labels, meaning) in told.items():
        kind, known = METRICS.get(name) or METRICS[f"{name}_bucket"]
        assert {label.strip() for label in labels.split(",") if label.strip()} == known, (name, kind)
        assert meaning.endswith("."), name


def test_there_are_enough_of_them_to_be_sure_that_they_were_found() -> None:
    assert {"muster_up", "muster_streams", "muster_refused_total", "muster_pass_seconds_bucket"} <= set(
        METRICS
    )


# ------------------------------------------------------------------------------------ dashboard and alerts
NAME = re.compile(r"\bmuster_\w+")
MATCHER = re.compile(r"(\bmuster_\w+)\{([^}]*)\}")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "muster.json").read_text())
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
EXPRESSIONS = {
    **{
        f"panel {panel['title']}: {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    },
    **{f"alert {rule['alert']}": rule["expr"] for rule in ALERTS},
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_what_is_asked_for_exists(expression: str) -> None:
    assert set(NAME.findall(expression)) <= METRICS.keys()
    for name, matchers in MATCHER.findall(expression):
        assert {matcher.partition("=")[0].strip() for matcher in matchers.split(",")} <= METRICS[name][1]
    known = {label for name in NAME.findall(expression) for label in METRICS[name][1]}
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in labels.split(",")} <= known
    assert expression.count("(") == expression.count(")")


def test_the_dashboard_can_be_imported() -> None:
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= DASHBOARD.keys()
    [source] = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) > 20
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["type"] in {"stat", "timeseries"}
            assert panel["targets"]
            assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_every_metric_of_use_is_on_the_dashboard() -> None:
    asked = {name for expression in EXPRESSIONS.values() for name in NAME.findall(expression)}
    untold = {HISTOGRAM.sub("", name) for name in METRICS} - {HISTOGRAM.sub("", name) for name in asked}
    assert untold == {
        "muster_live_units",
        "muster_lease_holder",
        *{HISTOGRAM.sub("", name) for name, (kind, _) in METRICS.items() if kind == "gauge"}
        & {f"muster_{what}_seconds_count" for what in ("admit", "start", "release", "turnover")},
    }


def test_each_alert_is_told() -> None:
    assert [row[0] for row in rows(section(PAGE, "Alerts and dashboard"))] == [
        rule["alert"] for rule in ALERTS
    ]
    for rule in ALERTS:
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in {"page", "ticket"}


def test_the_scrape_asks_where_the_api_answers() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    assert (job["job_name"], job["metrics_path"]) == ("muster", "/metrics")
    assert config["rule_files"] == ["alerts.yml"]


# ------------------------------------------------------------------------------------ log events
def events() -> dict[str, set[str]]:
    """The levels of every event that a process logs, by its name."""
    found: dict[str, set[str]] = {}
    for folder in ("service", "workers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            if "structlog" in source:
                for name, level in _logged(ast.parse(source)):
                    found.setdefault(name, set()).add(level)
    return found


def _logged(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {*LEVELS, "exception", "critical"}
            and re.search(r"\b_?log$|get_logger\(", ast.unparse(node.func.value))
        ):
            names = [each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant)]
            assert names, ast.unparse(node)
            for name in names:
                assert re.fullmatch(r"[a-z_]+", str(name)), f"an event is named in snake_case: {name!r}"
                yield str(name), node.func.attr


def test_each_log_event_is_told_with_its_level() -> None:
    told = {row[0].strip("`"): row[1] for row in rows(section(PAGE, "Log events"))}
    logged = events()
    assert len(logged) > 25
    assert told.keys() == logged.keys()
    assert {name: {level} for name, level in told.items()} == logged


# ------------------------------------------------------------------------------------ drift
def test_each_kind_of_drift_is_told_with_what_to_do() -> None:
    table = rows(section(PAGE, "When the audit shows drift"))
    assert [row[0].strip("`") for row in table] == [kind.value for kind in DriftKind]
    assert all(len(row) == 3 and all(row) for row in table)


def test_commands_that_the_page_names_exist() -> None:
    from service.cli.main import COMMANDS

    named = set(re.findall(r"(?:`|^)muster ([a-z]+)", PAGE, re.MULTILINE))
    assert named - COMMANDS.keys() == set()
    assert {"backup", "restore", "migrate", "audit", "health"} <= named


def test_the_contents_lead_somewhere() -> None:
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) == headings
    assert Path(ROOT / "docs" / "architecture.md").exists()
