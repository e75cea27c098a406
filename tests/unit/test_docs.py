"""What the docs say in tables and names is what the code has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich_click as click

from service.cli.main import cli
from service.domain.reasons import Code, rank
from service.domain.status import EDGES, GROUP_RANK, Cause, Status

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def read(name: str) -> str:
    return (DOCS / name).read_text()


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next one."""
    return page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of the first table in a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


ALL_EDGES = {(old.value, new.value) for old, following in EDGES.items() for new in following}


def test_the_drawing_of_a_life_has_the_edges_of_the_code() -> None:
    drawing = read("lifecycle.md").split("```mermaid\n", 1)[1].split("```", 1)[0]
    drawn = set(re.findall(r"^\s*(\w+) --> (\w+)", drawing, re.MULTILINE))
    assert drawn == ALL_EDGES


def test_the_drawing_ends_where_a_life_ends() -> None:
    ends = set(re.findall(r"(\w+) --> \[\*\]", read("lifecycle.md")))
    assert ends == {status.value for status, following in EDGES.items() if not following}


def test_each_edge_has_its_causes() -> None:
    table = rows(section(read("lifecycle.md"), "What moves a unit"))
    assert sorted((old, new) for old, new, _ in table) == sorted(ALL_EDGES)
    assert all(cause for _, _, cause in table)


def test_each_status_and_each_cause_is_told() -> None:
    page = read("lifecycle.md")
    assert [row[0] for row in rows(section(page, "What the states mean"))] == [each.value for each in Status]
    causes = {row[0] for row in rows(section(page, "Why a unit ends or is queued again"))}
    assert causes == {cause.value for cause in Cause}


def test_the_rank_of_statuses_in_a_group_is_told() -> None:
    told = section(read("lifecycle.md"), "The status of a whole group").replace("\n", " ")
    assert ", ".join(status.value for status in GROUP_RANK) in told


def test_each_pending_reason_is_told_in_its_order() -> None:
    told = [row[0].strip("`") for row in rows(read("reasons.md"))]
    assert told == [code.value for code in sorted(Code, key=rank)]
    assert all(row[1] for row in rows(read("reasons.md")))


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


#: `service/domain/status.py`, `examples/demo/`, and a function of a file: `workers/admission.py: Leader`.
FILE = re.compile(r"`((?:service|workers|migrations|examples|tests|docs|openapi|requirements)/[\w./*-]*)`")
NAME = re.compile(r"`((?:service|workers|examples)/[\w/]+\.py)`:\s+`(\w+(?:\.\w+)?)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(FILE.findall(page.read_text()))
    assert {name for name in named if not list(ROOT.glob(name.rstrip("/")))} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_functions_that_a_page_names_exist(page: Path) -> None:
    missing = []
    for file, name in NAME.findall(page.read_text()):
        source = (ROOT / file).read_text()
        if not all(re.search(rf"\b(def|class) {part}\b", source) for part in name.split(".")):
            missing.append(f"{file}: {name}")
    assert missing == []


def test_each_decision_is_in_the_list() -> None:
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", read("decisions/README.md"))
    assert listed == sorted(path.name for path in (DOCS / "decisions").glob("[0-9]*.md"))


def test_each_rule_is_cited_where_the_page_says_that_it_is_kept() -> None:
    table = rows(section(read("architecture.md"), "Where each rule is kept"))
    missing = [
        (rule, file)
        for rule, _, kept in table
        for file in re.findall(r"`([^`]+)`", kept)
        if not re.search(rf"\b{rule}\b", (ROOT / file).read_text())
    ]
    assert missing == []


def test_each_rule_that_the_code_cites_is_on_the_page() -> None:
    told = {row[0] for row in rows(section(read("architecture.md"), "Where each rule is kept"))}
    sources = [path for folder in ("service", "workers") for path in (ROOT / folder).rglob("*.py")]
    cited = {
        rule for path in sources for rule in re.findall(r"[(, ]([LWRXDTPJK]\d)[),:. ]", path.read_text())
    }
    assert cited <= told


def test_each_problem_is_told_with_its_status() -> None:
    from service.api import problems

    kinds = {*problems.KINDS.values(), *problems._HTTP_KINDS.values(), problems._INTERNAL}
    told = {(name.strip("`"), int(status)) for name, status, _ in rows(section(read("api.md"), "Errors"))}
    assert told == {(kind.slug, kind.status) for kind in kinds}


def test_each_path_that_the_tour_names_is_there() -> None:
    described = json.loads((ROOT / "openapi" / "openapi.json").read_text())["paths"]
    known = [re.sub(r"\{\w+\}", "[^/]+", path) for path in described]
    named = {f"/v1{path}" for path in re.findall(r"\$API(/[\w/$-]+)", read("api.md"))}
    named |= set(re.findall(r"`(?:GET |POST )?(/(?:v1/|healthz|readyz|metrics)[\w/]*)`", read("api.md")))
    assert {path for path in named if not any(re.fullmatch(each, path) for each in known)} == set()


def commands() -> Iterator[str]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"muster {name} {each}" for each in command.list_commands(context))
        else:
            yield f"muster {name}"


def test_each_command_is_told_and_no_other() -> None:
    told = re.findall(r"^\| `(muster [a-z ]+)` \|", read("cli.md"), re.MULTILINE)
    assert sorted(told) == sorted(commands())


def test_each_command_that_a_page_names_is_there() -> None:
    known = {command.split()[1] for command in commands()}
    named = {name for page in PAGES for name in re.findall(r"`muster ([a-z]+)", page.read_text())}
    assert named <= known
