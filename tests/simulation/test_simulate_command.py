"""`muster simulate` as it is called: files in, a table, a page and figures out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.cli import exits
from service.cli.main import run
from simulation.groups import Spread
from simulation.trial.contest import Watcher, run_contest
from simulation.trial.trial import Question

CLUSTER = "nodes:\n  - {name: gpu, count: 4, gpus: 8, cpus: 64, memory_gib: 512}\n"
SPEC = (
    "columns: {name: id, submitted_at: at, runtime: ran, gpus: gpus, tenant: team, time_limit: limit}\n"
    'start: "2030-01-01T00:00:00Z"\n'
)
STRICT = "queues:\n  - {name: all, order: strict}\n"
BEST_EFFORT = "queues:\n  - {name: all, order: best_effort}\n"
HEAD = "id,at,ran,gpus,team,limit"


def rows(count: int = 60) -> list[str]:
    sizes = (1, 8, 2, 24, 4)
    return [
        f"job-{n},{n * 300},{600 + n * 37 % 3000},{sizes[n % 5]},{'ab'[n % 2]},{7200}" for n in range(count)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "cluster.yaml": CLUSTER,
        "spec.yaml": SPEC,
        "strict.yaml": STRICT,
        "best.yaml": BEST_EFFORT,
        "jobs.csv": "\n".join([HEAD, *rows()]) + "\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def simulate(
    *more: str, log: str = "jobs.csv", policies: Sequence[str] = ("strict.yaml", "best.yaml")
) -> int:
    named = [word for policy in policies for word in ("-p", policy)]
    return run(["simulate", log, "--spec", "spec.yaml", "-c", "cluster.yaml", *named, *more])


def test_a_table_a_page_and_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--figures", "figures.json", "-o", "page.html") == exits.OK
    said = capsys.readouterr()
    lines = [line.split("\t") for line in said.out.splitlines()]
    assert lines[0] == ["policy", "", "strict", "best"]
    told = json.loads((folder / "figures.json").read_text())
    means = [repr(each["all"]["wait"]["mean"]) for each in told["measures"]]
    assert ["Wait", "mean", *means] in lines
    assert float(means[0]) > float(means[1])
    page = (folder / "page.html").read_text()
    assert "2 policies on " in page
    assert "The page with pictures: page.html" in said.err
    # No bar: nobody watches a pipe.
    assert "━" not in said.err


def test_the_same_input_gives_the_same_bytes_in_processes_of_their_own_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ("--wrong-limits", "1-5", "--seed", "7")
    assert simulate("--figures", "a.json", "-o", "a.html", *limits) == exits.OK
    assert simulate("--figures", "b.json", "-o", "b.html", *limits, "--jobs", "2") == exits.OK
    for ending in ("json", "html"):
        assert (folder / f"a.{ending}").read_bytes() == (folder / f"b.{ending}").read_bytes()


def test_a_program_gets_json_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--json", policies=["strict.yaml"]) == exits.OK
    said = capsys.readouterr()
    assert [each["policy"] for each in json.loads(said.out)["measures"]] == ["strict"]
    assert said.err == ""


def test_what_is_left_out_is_counted_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = [HEAD, *rows(20), "x,100,-5,1,a,60", "y,100,50,,a,60", "z,100,50,640,a,60"]
    (folder / "jobs.csv").write_text("\n".join(text) + "\n")
    assert simulate(policies=["strict.yaml"]) == exits.OK
    said = capsys.readouterr().err
    assert "line 22" in said
    assert "line 23" in said
    # Larger than the site: replayed, and told not to start.
    assert "1 of 21 groups never started (1 the site cannot hold them)" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"log": "none.csv"}, exits.USAGE, "none.csv"),
        ({"policies": ["nothing"]}, exits.USAGE, "nothing is no file"),
        ({"policies": ["cluster.yaml"]}, exits.USAGE, "cluster.yaml"),
        ({"log": "empty.csv"}, exits.USAGE, "empty.csv"),
        ({"log": "broken.csv"}, exits.USAGE, "broken.csv"),
        ({"more": ["--wrong-limits", "5-1"]}, exits.USAGE, "the smaller one first"),
        ({"more": ["--wrong-limits", "x"]}, exits.USAGE, "is no range of factors"),
        ({"more": ["-o", "no/page.html"]}, exits.USAGE, "there is no folder"),
    ],
)
def test_what_is_wrong_is_one_message_and_a_code(
    folder: Path, arguments: dict[str, object], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty.csv").write_text(HEAD + "\n")
    (folder / "broken.csv").write_text("id,at\n1,2\n")
    more = arguments.pop("more", [])
    assert isinstance(more, list)
    assert simulate(*more, **arguments) == code  # type: ignore[arg-type]
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (folder / "muster-simulation.html").exists()


def test_two_policies_of_one_name_are_told_apart(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "strict.yaml").write_text(BEST_EFFORT)
    question = Question(
        log=Path("jobs.csv"),
        log_format="csv",
        spec=Path("spec.yaml"),
        cluster=Path("cluster.yaml"),
        spread=Spread.NODES,
        wrong_limits=None,
        seed=1,
    )
    told: list[str] = []
    watcher = Watcher(begin=lambda jobs: told.append(str(jobs)), progress=lambda *_: None, done=told.append)
    found = run_contest(question, ["strict.yaml", "other/strict.yaml"], watcher)
    assert [each.policy for each in found.measures] == ["strict", "strict (2)"]
    assert told == ["60", "strict.yaml", "other/strict.yaml"]
