"""`--dry-run`: what would come of groups, and nothing submitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.store.engine import make_engine
from tests.integration.api.rows import add_nodes, add_pool
from tests.integration.cli.conftest import Muster


@pytest.fixture
def nodes(database_url: str) -> Iterator[None]:
    """One, of four GPUs."""
    engine = make_engine(database_url, pool_size=1)
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (4, "H100-80GB")})
    yield
    engine.dispose()


@pytest.mark.usefixtures("nodes")
def test_it_says_what_would_come_of_each_group_of_a_file(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(
        "{name: a, members: 2, gpus: 2, command: [x]}\n---\n{name: b, members: 3, gpus: 2, command: [x]}\n"
        "---\n{name: c, gpus: 5, queue: nowhere, command: [x]}\n"
    )
    said = muster("submit", str(file), "--dry-run")
    assert said.code == 6
    assert said.rows[0] == ["a", "admit", "on n1 (4 GPUs)"]
    assert [row[:2] for row in said.rows[1:]] == [["b", "wait"], ["b", "wait"], ["c", "refuse"]]
    assert said.rows[1][2].startswith("NeverFits: ")
    assert said.rows[2][2] == "position 1"
    assert said.rows[3][2].startswith("queue: ")
    assert "Nothing was submitted" in said.err
    assert muster("list").rows == []
    (a, b, c) = json.loads(muster("--json", "submit", str(file), "--dry-run").out)["checks"]
    assert (a["would"], b["would"], c["would"]) == ("admit", "wait", "refuse")


@pytest.mark.usefixtures("nodes")
def test_a_group_that_waits_for_an_earlier_one_of_its_file_would_wait(muster: Muster, tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(
        "{name: a, command: [x]}\n---\n{name: b, command: [x], after: [{batch_index: 0}]}\n"
        "---\n{name: c, command: [x], after: [{batch_index: 3}]}\n"
    )
    said = muster("submit", str(file), "--dry-run")
    assert said.rows[1] == ["b", "wait", "DependencyPending: waits for a of the same file"]
    # Nobody may wait for who comes later.
    assert (said.code, said.rows[2][:2]) == (6, ["c", "refuse"])
    (_, b, _) = json.loads(muster("--json", "submit", str(file), "--dry-run").out)["checks"]
    assert (b["would"], b["places"], b["position"]) == ("wait", [], None)


@pytest.mark.usefixtures("nodes")
def test_one_group_from_options(muster: Muster) -> None:
    said = muster("run", "--dry-run", "-g", "4", "--name", "one", "--", "true")
    assert (said.code, said.rows) == (0, [["one", "admit", "on n1 (4 GPUs)"]])
    said = muster("run", "--dry-run", "-g", "5", "--", "true")
    assert (said.code, said.rows[0][:2]) == (6, ["true", "refuse"])
    assert said.rows[0][2].startswith("gpus: ")
    assert muster("list").rows == []
