"""Completion as a person meets it: a shell at a terminal, and the Tab key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.client import Client
from tests.serving import KEY

_SECONDS = 30.0
#: How a shell is started without anybody's own settings, and told of `muster`.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(muster completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -D -u; eval "$(muster completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "muster completion fish | source"),
}

#: A shell asks for job control, and that for a terminal of its own.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def environ(**more: str) -> dict[str, str]:
    """With the `muster` of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: os.environ[name] for name in ("HOME", "FPATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "PATH": path, "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "$ "} | more


class Terminal:
    """A shell that reads keys."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = ""

    def type(self, keys: str) -> None:
        self.shown = ""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, pattern: str) -> str:
        """Read until it shows `pattern`."""
        deadline = time.monotonic() + _SECONDS
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.shown!r}"
            if select.select([self._descriptor], [], [], 0.5)[0]:
                self.shown += os.read(self._descriptor, 1 << 16).decode(errors="replace")
        return found[0]


@contextmanager
def terminal(command: list[str], env: dict[str, str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> Callable[[dict[str, str]], Iterator[Terminal]]:
    """Starts a shell in which completion is set up."""
    command, setup = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")

    def start(env: dict[str, str]) -> Iterator[Terminal]:
        with terminal(command, env) as screen:
            # What is typed shows too, so it is not what is waited for.
            screen.type(f"{setup}; printf 'set-%s' up\n")
            screen.wait_for("set-up")
            yield screen

    return start


def test_tab_completes_a_command_a_group_and_a_queue(
    shell: Callable[[dict[str, str]], Iterator[Terminal]], server: str, client: Client
) -> None:
    group = client.submit({"name": "resnet-night", "members": 1, "command": ["true"]})
    env = environ(MUSTER_URL=server, MUSTER_API_KEY=KEY)
    for screen in shell(env):
        screen.type("muster canc\t")
        screen.wait_for(r"muster cancel ")
        screen.type("resn\t")
        screen.wait_for(r"resnet-night ")
        screen.type(f"{group.id[-12:-6]}\t")
        screen.wait_for(group.id[-12:])
        screen.type("\x15muster list --queue defa\t")
        screen.wait_for(r"--queue default ")


def test_bash_completes_options_and_what_is_chosen_from() -> None:
    assert completed("muster list --wai") == ["--waiting"]
    assert completed("muster list --status Runn") == ["running"]
    assert completed("muster health wor") == ["worker"]
    assert "submit" in completed("muster ")


def test_bash_completes_what_the_server_has(server: str, client: Client) -> None:
    for name in ("one", "two"):
        client.submit({"name": name, "members": 1, "command": ["true"]})
    ended = client.submit({"name": "gone", "members": 1, "command": ["true"]})
    client.cancel(ended.id)
    env = environ(MUSTER_URL=server, MUSTER_API_KEY=KEY)
    # What has ended can be looked at, and not be cancelled.
    assert sorted(completed("muster show ", env)) == ["gone", "one", "two"]
    assert sorted(completed("muster cancel ", env)) == ["one", "two"]
    assert completed(f"muster --url {server} why tw", environ(MUSTER_API_KEY=KEY)) == ["two"]


@pytest.mark.parametrize(
    "env",
    [
        {"MUSTER_URL": "http://127.0.0.1:9"},
        {"MUSTER_URL": "no address"},
        {"MUSTER_API_KEY": "not\nthe key"},
        {"MUSTER_API_KEY": "a-key-that-nobody-has"},
    ],
)
def test_without_an_answer_it_completes_nothing_and_says_nothing(env: dict[str, str], server: str) -> None:
    began_at = time.monotonic()
    assert completed("muster show ", environ(**{"MUSTER_URL": server} | env)) == []
    assert time.monotonic() - began_at < 5


def completed(line: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash's own function answers for a line that ends where the cursor is. It prints nothing."""
    *words, last = line.split(" ")
    script = (
        'eval "$(muster completion bash)"; complete -p muster >/dev/null || exit 9;'
        ' COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _muster_completion muster;'
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script, "bash", *words, last],
        env=env or environ(MUSTER_URL="http://127.0.0.1:9"),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()
