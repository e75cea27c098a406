"""What cannot be done ends with a message and a code of its own: 1 is for groups that failed."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from service.cli import exits
from service.cli.main import run


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An address at which nobody answers, with a key for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("MUSTER_URL", url)
    monkeypatch.setenv("MUSTER_API_KEY", "a-key")
    monkeypatch.setenv("MUSTER_DATA", str(tmp_path))
    return url


def test_no_server_is_code_3_and_says_where(nowhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("list", "nodes", "show a", "run -- true"):
        assert run(command.split()) == exits.NO_SERVER
        said = capsys.readouterr()
        assert said.out == ""
        assert nowhere in said.err
        assert "muster up" in said.err


@pytest.mark.parametrize("text", ['{"a":' * 100_000, "a: " + "[" * 5000, "a: &x [*x]\n", "cpus: .inf\n"])
def test_a_file_that_goes_too_deep_is_wrong(
    nowhere: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "g.yaml"
    file.write_text(text)
    assert run(["submit", str(file)]) == exits.USAGE
    assert str(file) in capsys.readouterr().err


def test_amounts_without_an_end_are_wrong(nowhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--cpus", "inf", "--", "true"]) == exits.USAGE
    assert "cpus: is not a finite number" in capsys.readouterr().err
    assert run(["queues", "update", "default", "--limit", "cpus=inf"]) == exits.USAGE


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "here", "http://a\nb", "http://a b", "http://a..b", "http://*", "http://-", "http://a?b"],
)
def test_a_wrong_address_is_wrong_usage(nowhere: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", url, "list"]) == exits.USAGE
    assert "is not the address of a server" in capsys.readouterr().err


def test_a_password_in_an_address_is_not_repeated(nowhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", "http://me:hush@127.0.0.1", "list"]) == exits.USAGE
    said = capsys.readouterr().err
    assert "no user and no password" in said
    assert "hush" not in said


@pytest.mark.parametrize("key", ["\u00e9t\u00e9-key", "two\nlines"])
def test_a_key_that_is_none_is_wrong_usage(
    nowhere: str, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_API_KEY", key)
    assert run(["list"]) == exits.USAGE
    said = capsys.readouterr().err
    assert "MUSTER_API_KEY" in said
    assert key not in said


def test_what_nobody_foresaw_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["version"]) == exits.BROKEN
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # what is left of it goes nowhere
    assert "No space left on device" in capsys.readouterr().err
