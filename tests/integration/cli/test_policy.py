"""Queues, cohorts and priority classes from the command line, one by one and as a file."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from service.client import Client
from service.inventory.client import make_client
from service.settings import Settings
from tests.integration.api.cluster import Cluster
from tests.integration.cli.conftest import Muster
from tests.integration.cli.terminal import at_terminal, lines_of

POLICY = """\
priority_classes:
  - name: urgent
    value: 1000

cohorts:
  - name: lab
    parent: org
    lending_limit: {H100-80GB: 2}
  - name: org
    weight: 2
    nominal_quota: {H100-80GB: 4}

queues:
  - name: default
  - name: research
    cohort: lab
    nominal_quota: {H100-80GB: 8, cpus: 64.5}
    borrowing_limit: {H100-80GB: 8}
    lending_limit: {H100-80GB: 4}
    reclaim: any
    highest_priority: {user: 100}
    max_time_limit: 1d
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_a_file_is_applied_and_exported_as_it_was(muster: Muster, file: Path, tmp_path: Path) -> None:
    said = muster("apply", "-f", str(file))
    assert (said.code, said.rows) == (
        0,
        [
            ["created", "priority_class", "urgent"],
            ["created", "cohort", "lab"],
            ["created", "cohort", "org"],
            ["created", "queue", "research"],
        ],
    )
    assert muster("export").out == POLICY
    copy = tmp_path / "copy.yaml"
    assert muster("export", "-o", str(copy)).code == 0
    assert copy.read_text() == POLICY
    unchanged = muster("apply", "--prune", "-f", str(copy))
    assert (unchanged.out, unchanged.err.splitlines()[0]) == ("", "5 unchanged.")
    assert json.loads(muster("apply", "--json", "-f", str(copy)).out)["unchanged"] == 5


def test_a_dry_run_shows_what_would_change(muster: Muster, file: Path) -> None:
    muster("apply", "-f", str(file))
    file.write_text(
        POLICY.replace("weight: 2\n", "weight: 3\n").replace("  - name: urgent\n    value: 1000", "")
    )
    said = muster("apply", "-f", str(file), "--dry-run", "--prune")
    assert said.rows == [
        ["deleted", "priority_class", "urgent"],
        ["changed", "cohort", "org", "weight", "2", "3"],
    ]
    assert muster("export").out == POLICY


def test_a_model_that_no_node_has_is_taken_with_a_hint(
    muster: Muster, file: Path, database_url: str, redis_url: str, engine: Engine, tmp_path: Path
) -> None:
    def hints(*arguments: str) -> list[str]:
        said = muster(*arguments)
        assert said.code == 0
        return [line for line in said.err.splitlines() if line.startswith("Hint")]

    assert hints("apply", "-f", str(file)) == ["Hint: no node has GPUs of H100-80GB; the nodes have none."]
    settings = Settings(database_url=database_url, redis_url=redis_url, data=tmp_path)
    with closing(make_client(redis_url)) as redis, closing(Cluster(settings, engine, redis)):
        wrong = ("--quota", "H100-81GB=4", "--quota", "cpus=4")
        has = "the nodes have H100-80GB."
        assert hints("queues", "create", "q", *wrong) == [f"Hint: no node has GPUs of H100-81GB; {has}"]
        assert hints("queues", "update", "q", "--quota", "H100-80GB=4", "--limit", "*=4") == []
        both = ("--flavor", "B", "--limit", "A=1")
        assert hints("queues", "update", "q", *both) == [f"Hint: no node has GPUs of A, B; {has}"]
        assert hints("queues", "update", "q", "--flavor", "none") == []
        assert hints("cohorts", "create", "c", *wrong) == [f"Hint: no node has GPUs of H100-81GB; {has}"]
        assert hints("cohorts", "update", "c", *wrong, "--json") == []
        assert hints("apply", "-f", str(file)) == []


def test_an_error_names_its_line(muster: Muster, file: Path) -> None:
    broken = POLICY.replace("{H100-80GB: 4}\n    reclaim", "{H100-80GB: 9}\n    reclaim")
    file.write_text(broken.replace("parent: org", "parent: nowhere"))
    said = muster("apply", "-f", str(file))
    assert said.code == 6
    assert f"{file}, line 7: cohorts[0].parent: There is no cohort nowhere." in said.err
    assert f"{file}, line 19: queues[1].lending_limit.H100-80GB: 9 is above" in said.err
    assert muster("export").out == "queues:\n  - name: default\n"

    file.write_text("queues:\n  - name: q\n    name: r\n")
    said = muster("apply", "-f", str(file))
    assert (said.code, "line 3" in said.err) == (2, True)


def test_every_value_of_a_wrong_type_is_named_with_its_line(muster: Muster, file: Path) -> None:
    file.write_text(
        "queues:\n"
        "  - name: a b\n"
        "    weight: much\n"
        "    nominal_quota: {mx: 1, my: '2', mz: -1}\n"
        "  - name: fine\n"
        "  - cohort: org\n"
        "    order: random\n"
        "    colour: red\n"
        "cohorts:\n"
        "  - name: org\n"
        "    parent: [x]\n"
    )
    said = muster("apply", "-f", str(file))
    assert said.code == 6
    places = [line.removeprefix("Error: ").partition(f"{file}, ")[2] for line in said.err.splitlines()]
    assert [place.rpartition(": ")[0] for place in places if place] == [
        "line 2: queues[0].name",
        "line 3: queues[0].weight",
        "line 4: queues[0].nominal_quota.my",
        "line 4: queues[0].nominal_quota.mz",
        "line 7: queues[2].order",
        "line 8: queues[2].colour",
        "line 6: queues[2].name",
        "line 11: cohorts[0].parent",
    ]
    assert muster("export").out == "queues:\n  - name: default\n"


def test_a_key_that_is_there_twice_is_named_with_its_line(muster: Muster, file: Path) -> None:
    file.write_text("queues:\n  - name: q\n    nominal_quota: {mx: 1, mx: 2}\n")
    said = muster("apply", "-f", str(file))
    assert said.code == 2
    assert "line 3, column 28: the key 'mx' is there twice" in said.err
    file.write_text('{"queues": [\n  {"name": "q",\n   "name": "r"}]}')
    said = muster("apply", "-f", str(file))
    assert said.code == 2
    assert "line 3, column 4: the key 'name' is there twice" in said.err


def test_a_queue_that_is_needed_is_not_pruned(muster: Muster, client: Client, file: Path) -> None:
    muster("apply", "-f", str(file))
    client.submit({"name": "g", "queue": "research", "gpus": 1, "command": ["x"]})
    file.write_text("queues:\n  - name: default\n")
    said = muster("apply", "-f", str(file), "--prune")
    assert said.code == 6
    assert "Queue research has 1 group that has not ended." in said.err


def test_every_setting_of_a_queue_has_an_option(muster: Muster, client: Client) -> None:
    assert muster("cohorts", "create", "org", "--weight", "2", "--quota", "mx=4").code == 0
    options = (
        "--order strict --order-by shortest --cohort org --weight 0.5 --quota mx=8 --quota cpus=4"
        " --borrow mx=2 --lend mx=1"
        " --limit mx=9 --user-limit mx=4 --group-limit mx=2 --flavor mx --flavor my --pool p1"
        " --filling spread --preempt-within lower_priority --reclaim fair_share --min-runtime 10m"
        " --evictions-per-day 3 --highest-priority user=10 --highest-priority operator=20"
        " --default-time-limit 1h --max-time-limit 2d"
    )
    assert muster("queues", "create", "q", *options.split()).code == 0
    queue = client.queues.get("q")
    assert (queue.cohort, queue.weight) == ("org", 0.5)
    assert (queue.order, queue.order_by) == ("strict", "shortest")
    assert (queue.nominal_quota, queue.borrowing_limit) == ({"mx": 8, "cpus": 4}, {"mx": 2})
    assert (queue.lending_limit, queue.limit) == ({"mx": 1}, {"mx": 9})
    assert (queue.user_limit, queue.group_limit) == ({"mx": 4}, {"mx": 2})
    assert (queue.flavors, queue.pools, queue.filling) == (["mx", "my"], ["p1"], "spread")
    assert (queue.preempt_within, queue.reclaim) == ("lower_priority", "fair_share")
    assert (queue.min_runtime, queue.evictions_per_day) == ("10m", 3)
    assert queue.highest_priority == {"operator": 20, "user": 10}
    assert (queue.default_time_limit, queue.max_time_limit) == ("1h", "2d")
    shown = dict(row for row in muster("queues", "show", "q").rows)
    assert shown["quota"] == "8 mx, 4 CPUs"
    assert shown["time limit"] == "1h, at most 2d"

    taken = (
        "--cohort none --borrow none --lend none --limit none --user-limit none --group-limit none"
        " --flavor none --pool none --evictions-per-day none --highest-priority none"
        " --default-time-limit none --max-time-limit none"
    )
    assert muster("queues", "update", "q", *taken.split()).code == 0
    queue = client.queues.get("q")
    assert (queue.cohort, queue.borrowing_limit, queue.limit) == (None, {}, {})
    assert (queue.flavors, queue.pools, queue.evictions_per_day) == (None, None, None)
    assert (queue.highest_priority, queue.max_time_limit) == ({}, None)


@pytest.mark.parametrize(
    "option",
    [
        "--highest-priority root=1",
        "--highest-priority user",
        "--highest-priority user=1 --highest-priority user=2",
        "--weight -1",
        "--quota mx=nan",
        "--quota mx=inf",
        "--quota mx=5=6",
        "--quota mx=5 --quota mx=6",
        "--flavor none --flavor mx",
        "--evictions-per-day 1.5",
        f"--evictions-per-day {10**30}",
    ],
)
def test_an_option_that_says_nothing_is_refused(muster: Muster, option: str) -> None:
    assert muster("queues", "create", "q", *option.split()).code == 2


def test_cohorts(muster: Muster) -> None:
    assert muster("cohorts").out == ""
    assert muster("cohorts", "create", "org", "--quota", "mx=4").code == 0
    assert muster("cohorts", "create", "lab", "--parent", "org", "--lend", "mx=1").code == 0
    assert muster("cohorts").rows[0][:3] == ["lab", "org", "1"]
    assert muster("queues", "create", "q", "--cohort", "lab", "--quota", "mx=2").code == 0
    shown = dict(row for row in muster("cohorts", "show", "lab").rows)
    assert (shown["parent"], shown["queues"], shown["cohorts"]) == ("org", "q", "-")
    assert (shown["quota"], shown["in all"]) == ("nothing of its own", "2 mx")
    assert (shown["borrows"], shown["lends"]) == ("no limit", "1 mx")
    assert dict(row for row in muster("cohorts", "show", "org").rows)["borrows"] == "-"
    assert json.loads(muster("cohorts", "show", "org", "--json").out)["cohorts"] == ["lab"]
    assert muster("cohorts", "show", "nothing").code == 5
    assert muster("queues", "delete", "q").code == 0
    assert muster("cohorts", "update", "lab").code == 2
    assert muster("cohorts", "update", "org", "--parent", "lab").code == 6
    assert muster("cohorts", "delete", "org").code == 6
    assert json.loads(muster("cohorts", "--json").out)["cohorts"][1]["total_quota"] == {"mx": 4}
    for name in ("lab", "org"):
        assert muster("cohorts", "delete", name).code == 0


def test_priority_classes(muster: Muster, client: Client, tmp_path: Path) -> None:
    assert muster("priorities", "set", "low", "-5").code == 0
    assert muster("priorities", "set", "high", "50").code == 0
    assert muster("priorities").rows == [["high", "50"], ["low", "-5"]]
    assert muster("run", "--name", "g", "-p", "high", "true").code == 0
    assert next(iter(client.list_groups(name="g"))).priority == 50
    assert muster("update", "g", "-p", "low").code == 0
    assert next(iter(client.list_groups(name="g"))).priority == -5
    assert muster("update", "g", "-p", "-7").code == 0
    assert next(iter(client.list_groups(name="g"))).priority == -7
    for refused in (muster("update", "g", "-p", "none"), muster("run", "--name", "h", "-p", "none", "true")):
        assert refused.code == 6
        assert "there is no priority class none; there is: high, low" in refused.err
    (tmp_path / "g.yaml").write_text("name: filed\npriority: high\ncommand: [x]\n")
    assert muster("submit", str(tmp_path / "g.yaml")).code == 0
    assert next(iter(client.list_groups(name="filed"))).priority == 50
    assert muster("priorities", "delete", "low").code == 0
    assert muster("priorities", "delete", "low").code == 5


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit(server: str, client: Client, muster: Muster, file: Path, columns: int) -> None:
    muster("apply", "-f", str(file))
    for command, shown in (
        ("cohorts", ["COHORT", "  lab", "H100-80GB", "12", "research"]),
        ("queues", ["COHORT", "SHARE", "research", "lab", "64.5"]),
        ("queues show research", ["within it: never; takes back: any", "8 H100-80GB, 64.5 CPUs"]),
        ("priorities", ["urgent", "1000"]),
        (f"apply -f {file}", ["5 unchanged."]),
    ):
        lines = lines_of(at_terminal(server, *command.split(), columns=columns))
        assert all(len(line) <= columns for line in lines), lines
        for part in shown:
            assert any(part in line for line in lines), (command, part)


def test_prune_of_a_file_that_names_nothing_is_refused(muster: Muster, file: Path) -> None:
    muster("apply", "-f", str(file))
    for text in ("", "# Nothing yet.\n", "queues: []\n", "queues:\n"):
        file.write_text(text)
        said = muster("apply", "-f", str(file), "--prune")
        assert (said.code, "names nothing" in said.err) == (2, True), text
        assert muster("apply", "-f", str(file)).code == 0
    assert muster("export").out == POLICY


def test_names_have_room_in_a_narrow_table(server: str, muster: Muster) -> None:
    muster("cohorts", "create", "organisation", "--quota", "H100-80GB=8")
    options = ("--cohort", "organisation", "--quota", "H100-80GB=128", "--stop", "hold_and_drain")
    muster("queues", "create", "nightly", *options, "--order", "strict")
    [line] = [
        line
        for line in lines_of(at_terminal(server, "queues", columns=80))
        if "H100-80GB" in line and "drain" in line
    ]
    assert line.startswith("nightly"), line
    assert "organ" in line


def test_what_was_exported_stays_until_all_of_the_next_is_written(
    muster: Muster, file: Path, tmp_path: Path
) -> None:
    muster("apply", "-f", str(file))
    copy = tmp_path / "copy.yaml"
    muster("export", "-o", str(copy))
    said = muster("export", "-o", str(tmp_path / "nowhere" / "copy.yaml"))
    assert (said.code, "cannot be written" in said.err, "Traceback" in said.err) == (2, True, False)
    # Where nothing can be put beside it, nothing is lost.
    (tmp_path / ".copy.yaml.new").mkdir()
    assert muster("export", "-o", str(copy)).code == 2
    assert copy.read_text() == POLICY
    assert muster("export", "-o", "/dev/null").code == 0


def test_a_name_that_is_empty_is_no_name(muster: Muster) -> None:
    for words in ("queues show", "queues update --weight 1", "cohorts show", "priorities delete"):
        said = muster(*words.split(), "")
        assert (said.code, "must not be empty" in said.err) == (2, True), words
    assert muster("hold", "").code == 5
