"""Every user command against the real API, as a script uses it: lines, JSON and exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from service.client import Client
from tests.integration.cli.conftest import Muster

GROUP = {"name": "sleepers", "members": 3, "command": ["sleep", "1"]}


@pytest.fixture
def group_id(client: Client) -> str:
    return client.submit(GROUP).id


def test_submit_prints_the_id(muster: Muster, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("name: a\nmembers: 2\ncommand: [echo, hi]\n")
    said = muster("submit", str(file))
    assert (said.code, said.err) == (0, "")
    group = client.get(said.out.strip())
    assert (group.name, group.wanted_members, group.status) == ("a", 2, "Pending")


def test_submit_reads_standard_input(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(GROUP).encode())))
    assert muster("submit", "-").code == 0


def test_several_groups_are_taken_together_in_their_order(
    muster: Muster, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("name: a\ncommand: [x]\n---\nname: b\ncommand: [x]\n")
    said = muster("submit", str(file))
    assert [client.get(line).name for line in said.out.split()] == ["a", "b"]
    file.write_text("name: c\ncommand: [x]\n---\nname: d\nmembers: -1\ncommand: [x]\n")
    said = muster("submit", str(file))
    assert said.code == 6
    assert "groups[1].members" in said.err
    assert not list(client.list_groups(name="c"))


def test_a_refused_group_is_told_field_by_field(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    file.write_text(json.dumps({"name": "a", "stall_timeout": "1m", "roles": None, "ready": "reported"}))
    said = muster("submit", str(file))
    assert said.code == 6
    assert "stall_timeout" in said.err
    assert "ready" in said.err


def test_a_repeated_submit_with_a_key_makes_no_second_group(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    file.write_text(json.dumps(GROUP))
    first, second = (muster("submit", str(file), "--key", "k1").out for _ in range(2))
    assert first == second
    file.write_text(json.dumps(GROUP | {"members": 4}))
    assert muster("submit", str(file), "--key", "k1").code == 6


def test_run_makes_a_gang_from_flags(muster: Muster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush")
    flags = "--members 6 --gpus 1 --model H100-80GB -p 7 --time-limit 4h -e A=1 --secret TOKEN"
    said = muster("run", *flags.split(), "--", "python", "-u", "t.py")
    assert said.code == 0, said.err
    group = client.get(said.out.strip())
    role = group.roles[0]
    assert (group.name, group.priority, group.time_limit_seconds, role.count) == ("python", 7, 14400, 6)
    assert (role.requests.gpus, role.gpu.models, role.command) == (1, ["H100-80GB"], ["python", "-u", "t.py"])
    assert (role.env, role.secrets, role.workdir) == ({"A": "1"}, ["TOKEN"], str(Path.cwd()))


def test_list_is_lines_for_scripts(muster: Muster, group_id: str) -> None:
    said = muster("list")
    assert said.rows == [
        [group_id, "sleepers", "Pending", "default", "-", "3", "0", said.rows[0][7], *"----"]
    ]
    assert said.rows[0][7].endswith("+00:00")


def test_list_is_narrowed(muster: Muster, group_id: str) -> None:
    for arguments, count in (
        ("--name sleepers", 1),
        ("--name others", 0),
        ("-s pending", 1),
        ("-s Running -s Failed", 0),
        ("--queue default --waiting", 1),
        ("--owner admin", 1),
        ("--owner nobody", 0),
        ("-l team=vision", 0),
    ):
        assert len(muster("list", *arguments.split()).rows) == count, arguments
    assert muster("list", "-l", "team").code == 2


def test_list_stops_at_the_limit_and_reads_on_over_pages(muster: Muster, client: Client) -> None:
    client.submit_batch([GROUP | {"name": f"g{number}"} for number in range(205)])
    cut = muster("list", "-n", "2")
    assert len(cut.rows) == 2
    assert "more than 2" in cut.err
    whole = muster("list", "-n", "205")
    assert (len(whole.rows), whole.err) == (205, "")
    for limit, has_more in ((203, True), (205, False)):
        answer = json.loads(muster("--json", "list", "-n", str(limit)).out)
        assert (len(answer["groups"]), answer["has_more"]) == (limit, has_more)


def test_a_group_is_named_by_id_part_of_an_id_or_name(muster: Muster, group_id: str) -> None:
    for text in (group_id, group_id.upper(), group_id[:14], group_id[-8:], "sleepers"):
        said = muster("show", text)
        assert said.code == 0, (text, said.err)
        assert f"group\tsleepers  {group_id}" in said.out
    for text in ("nothing", "ffffffff", "0", group_id[-7:], group_id[:7], group_id[-4:]):
        assert muster("show", text).code == 5
    assert muster("show", group_id[:-1] + ("0" if group_id[-1] != "0" else "1")).code == 5


def test_a_name_of_several_is_refused_with_their_ids(muster: Muster, client: Client, group_id: str) -> None:
    other = client.submit(GROUP).id
    said = muster("cancel", "sleepers")
    assert said.code == 2
    assert group_id in said.err
    assert other in said.err
    client.cancel(other)
    assert muster("cancel", "sleepers").rows == [[group_id, "sleepers", "Cancelled", ""]]


def test_show_is_complete_in_json(muster: Muster, group_id: str) -> None:
    said = muster("show", "--json", group_id)
    shown = json.loads(said.out)
    assert shown["group"]["id"] == group_id
    assert [member["member"] for member in shown["members"]] == [0, 1, 2]
    assert [event["kind"] for event in shown["events"]] == ["Submitted"]


def test_why_before_the_first_cycle(muster: Muster, group_id: str) -> None:
    said = muster("why", group_id)
    assert said.code == 0
    assert said.rows[0][0] == "PendingEvaluation"
    answer = json.loads(muster("why", group_id, "--json").out)
    assert answer["position"]["is_waiting"] is True
    assert answer["reasons"][0]["code"] == "PendingEvaluation"


def test_hold_and_release(muster: Muster, client: Client, group_id: str) -> None:
    assert muster("hold", group_id).rows == [[group_id, "sleepers", "Pending", "held"]]
    assert muster("why", group_id).rows[0][0] == "OnHold"
    assert muster("release", group_id).rows == [[group_id, "sleepers", "Pending", ""]]
    assert not client.get(group_id).is_held


def test_update_changes_what_is_said(muster: Muster, client: Client, group_id: str) -> None:
    said = muster("update", group_id, "-p", "-3", "--time-limit", "2h", "--label", "a=b=c", "--label", "x=")
    assert (said.code, said.err) == (0, "")
    group = client.get(group_id)
    assert (group.priority, group.time_limit_seconds, group.labels) == (-3, 7200, {"a": "b=c", "x": ""})
    assert muster("update", group_id, "--time-limit", "none", "--label", "none").code == 0
    group = client.get(group_id)
    assert (group.priority, group.time_limit_seconds, group.labels) == (-3, None, {})


@pytest.mark.parametrize("arguments", [[], ["--label", "a"], ["--label", "=b"], ["--time-limit"]])
def test_an_update_that_says_nothing_is_wrong(muster: Muster, group_id: str, arguments: list[str]) -> None:
    assert muster("update", group_id, *arguments).code == 2


def test_run_waits_for_others_by_name(muster: Muster, client: Client, group_id: str) -> None:
    said = muster(
        *("run", "--name", "a:b", "--after", group_id, "--not-before", "2999-01-31T18:00:00Z", "--", "true")
    )
    assert (said.code, said.err) == (0, "")
    first = client.get(said.out.strip())
    assert [(each.group, each.when) for each in first.after] == [(group_id, "ok")]
    assert first.not_before_at is not None
    said = muster("run", "--after", "a:b:any", "--after", f"{group_id}:not_ok", "--", "true")
    second = client.get(said.out.strip())
    assert [(each.group, each.when) for each in second.after] == [(first.id, "any"), (group_id, "not_ok")]
    said = muster("show", second.id)
    assert f"{first.id} (any)" in said.out


def test_cancel_tries_all_and_tells_the_first_failure(muster: Muster, client: Client, group_id: str) -> None:
    said = muster("cancel", "nothing", group_id)
    assert said.code == 5
    assert said.err.count("nothing") == 1
    assert client.get(group_id).status == "Cancelled"
    assert muster("cancel", group_id).code == 0


def test_one_member_of_an_independent_group_is_cancelled(
    muster: Muster, client: Client, group_id: str
) -> None:
    shards = client.submit(GROUP | {"name": "shards", "scheduling": "independent"}).id
    assert muster("cancel", shards, "-m", "1").code == 0
    statuses = [member.status for member in client.members(shards).list()]
    assert statuses == ["Pending", "Cancelled", "Pending"]
    assert muster("cancel", group_id, "-m", "1").code == 6
    assert muster("cancel", shards, "-m", "9").code == 5


def test_logs_of_what_never_ran(muster: Muster, group_id: str) -> None:
    said = muster("logs", group_id)
    assert (said.code, said.out) in {(0, ""), (5, "")}
    assert "This is member 0 of sleepers; --member N shows another one, up to 2." in said.err
    assert "This is member" not in muster("logs", group_id, "--member", "0").err


def test_queues(muster: Muster) -> None:
    assert muster("queues").rows[0][0] == "default"
    said = muster(
        "queues", "create", "research", "--order", "strict", "--quota", "H100-80GB=8", "--limit", "cpus=64"
    )
    assert said.rows == [["research", "strict", "none", "0", "-", "-", "8 H100-80GB", "64 CPUs", "all", "-"]]
    assert muster("queues", "create", "research").code == 6
    assert muster("queues", "update", "research").code == 2
    said = muster("queues", "update", "research", "--quota", "none", "--stop", "hold")
    assert said.rows[0][2:7] == ["hold", "0", "-", "-", "none"]
    above = muster("queues", "update", "research", "--quota", "A100-40GB=9", "--limit", "A100-40GB=8")
    assert above.code == 6
    assert "nominal" in above.err
    assert muster("queues", "delete", "research").code == 0
    assert muster("queues", "delete", "research").code == 5


def test_keys(muster: Muster, monkeypatch: pytest.MonkeyPatch, group_id: str) -> None:
    said = muster("keys", "create", "ada", "--tenant", "lab")
    key = said.out.strip()
    assert key.startswith("muster_")
    assert ["ada", "lab", "user"] in [row[1:4] for row in muster("keys").rows]
    monkeypatch.setenv("MUSTER_API_KEY", key)
    assert muster("keys").code == 4
    assert muster("list").rows == []
    assert muster("show", group_id).code == 5
    monkeypatch.undo()
    assert key not in said.err


def test_a_key_that_is_not_there_is_not_repeated(muster: Muster) -> None:
    said = muster("keys", "revoke", "muster_hush")
    assert said.code == 5
    assert "there is no key with this id" in said.err
    assert "hush" not in said.err


def test_without_a_key_it_is_said_where_one_comes_from(
    muster: Muster, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_API_KEY")
    said = muster("--data", str(tmp_path / "of-nobody"), "list")
    assert said.code == 4
    for part in ("MUSTER_API_KEY is not set", str(tmp_path / "of-nobody"), server):
        assert part in said.err


def test_a_revoked_key_is_refused(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    made = json.loads(muster("keys", "create", "ada", "--json").out)
    assert muster("keys", "revoke", made["id"]).code == 0
    monkeypatch.setenv("MUSTER_API_KEY", made["key"])
    said = muster("list")
    assert said.code == 4
    assert made["key"] not in said.err


def test_nodes_inventory_and_audit_without_a_dispatcher(muster: Muster) -> None:
    assert muster("nodes").rows == []
    assert muster("nodes", "cordon", "node-9").code == 5
    # No leader has built a ledger yet.
    assert muster("inventory").code == 3
    assert "inventory" in muster("inventory").err


def test_watching_a_group_to_a_bad_end(muster: Muster, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    file.write_text(json.dumps(GROUP))
    group_id = muster("submit", str(file), "--key", "w").out.strip()
    client.cancel(group_id)
    said = muster("submit", str(file), "--key", "w", "--watch")
    assert said.code == 1
    assert said.rows[0] == [group_id]
    assert said.rows[-1][:2] == ["sleepers", "Cancelled"]
    watched = muster("submit", str(file), "--key", "w", "--watch", "--json")
    assert json.loads(watched.out)["status"] == "Cancelled"
