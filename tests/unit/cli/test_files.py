"""Group files: what is read, and what is said about a broken one."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from service.cli.files import parse_group_file, read_group_file
from service.client.errors import FileWrong


def test_one_mapping_is_one_group() -> None:
    file = parse_group_file("name: a\nmembers: 2\ncommand: [echo, hi]\n", name="f")
    assert file.groups == ({"name": "a", "members": 2, "command": ["echo", "hi"]},)
    assert not file.is_batch


@pytest.mark.parametrize(
    "text",
    [
        "- {name: a}\n- {name: b}\n",
        "name: a\n---\nname: b\n",
        "---\nname: a\n---\nname: b\n---\n",
        '[{"name": "a"}, {"name": "b"}]',
    ],
)
def test_several_groups_are_a_batch_in_their_order(text: str) -> None:
    file = parse_group_file(text, name="f")
    assert [group["name"] for group in file.groups] == ["a", "b"]
    assert file.is_batch


def test_a_list_of_one_is_a_batch_too() -> None:
    assert parse_group_file("- name: a\n", name="f").is_batch


def test_json_is_read_as_json() -> None:
    file = parse_group_file('{"name": "a",\t"env": {"X": "1:30"}}', name="f")
    assert file.groups[0]["env"] == {"X": "1:30"}


def test_yaml_in_braces_is_yaml() -> None:
    assert parse_group_file("{name: a}", name="f").groups == ({"name": "a"},)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1:30", "1:30"),
        ("2026-01-02", "2026-01-02"),
        ("010", "010"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("true", True),
    ],
)
def test_values_mean_what_json_would_take_them_for(written: str, meant: object) -> None:
    value = parse_group_file(f"x: {written}\n", name="f").groups[0]["x"]
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nmembers: 2\nmembers: 3\n", "line 3, column 1: the key 'members' is there twice"),
        ("name: a\nenv: {A: '1', A: '2'}\n", "line 2, column 15: the key 'A' is there twice"),
        ("name: a\n---\n- {x: 1, 'x': 2}\n", "line 3, column 10: the key 'x' is there twice"),
        ('{"name": "a", "env": {"A": "1", "A": "2"}}', "the key 'A' is there twice"),
    ],
)
def test_a_key_that_is_there_twice_is_refused(text: str, said: str) -> None:
    with pytest.raises(FileWrong) as caught:
        parse_group_file(text, name="jobs.yaml")
    assert str(caught.value).startswith("jobs.yaml")
    assert said in str(caught.value)


def test_what_is_merged_in_may_be_given_anew() -> None:
    text = "env: &e {A: '1', B: '1'}\nroles: [{env: &r {<<: *e, A: '2'}}]\nlabels: {<<: *r, B: '3'}\n"
    group = parse_group_file(text, name="f").groups[0]
    assert group["roles"][0]["env"] == {"A": "2", "B": "1"}
    assert group["labels"] == {"A": "2", "B": "3"}


def test_the_line_that_is_no_yaml_is_shown_with_the_place() -> None:
    with pytest.raises(FileWrong) as caught:
        parse_group_file("name: a\nmembers: [1\ncommand: x\n", name="jobs.yaml")
    said, line, mark = str(caught.value).splitlines()
    assert said.startswith("jobs.yaml, line 3, column 8: ")
    assert line[mark.index("^")] == ":"
    assert line.strip() == "command: x"


def _many_aliases() -> str:
    """Eight short lines of YAML that are ten to the eighth values."""
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for old, new in itertools.pairwise("abcdefgh"):
        lines.append(f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no group"),
        ("# nothing\n", "holds no group"),
        ("[]", "holds no group"),
        ("just words", "the group is no mapping of fields, but a text"),
        ("- a\n- b\n", "group 1 is no mapping of fields, but a text"),
        ("name: a\n---\n[1]\n", "group 2 is no mapping of fields, but a list"),
        ("name: [a\n", "line 2"),
        ('{"name": "a"', "no JSON"),
        ("name: a\ntime_limit: .inf\n", "time_limit: is not a finite number"),
        ("name: a\n---\nroles: [{cpus: -.INF}]\n", "[1].roles[0].cpus: is not a finite number"),
        ('{"cpus": NaN}', "cpus: is not a finite number"),
        ('{"cpus": 1e999}', "cpus: is not a finite number"),
        ('{"name": "\\ud800"}', "name: holds half a character"),
        ("priority: 99999999999999999999", "priority: is a number of more than 64 bits"),
        ("priority: " + "9" * 5000, "digits"),
        ('{"priority": ' + "9" * 5000 + "}", "no JSON"),
        ("[" * 100_000, "lie in one another"),
        ('{"a":' * 100_000, "lie in one another"),
        ("a: " + "[" * 5000, "lie in one another"),
        ("a: &x [*x]\n", "lie in one another"),
        (_many_aliases(), "more than 2000000 values"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(FileWrong) as caught:
        parse_group_file(text, name="jobs.yaml")
    assert str(caught.value).startswith("jobs.yaml")
    assert said in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileWrong, match=r"nowhere\.yaml cannot be read"):
        read_group_file(str(tmp_path / "nowhere.yaml"))


def test_the_examples_are_read() -> None:
    examples = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
    assert examples
    for path in examples:
        assert read_group_file(str(path)).groups


def test_a_file_that_is_too_large_is_not_taken_apart(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("a: b\n" * 1024**2)
    with pytest.raises(FileWrong, match="more than 4 MiB of it are not read; as JSON they are"):
        read_group_file(str(path))
    path.write_bytes(b" " * (16 * 1024**2 + 1))
    with pytest.raises(FileWrong, match="larger than the 16 MiB that the server takes"):
        read_group_file(str(path))
