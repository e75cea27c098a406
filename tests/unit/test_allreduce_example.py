"""The example training, run as real processes on the loopback interface."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
# Far above what any of these takes, so that only a process that hangs meets it.
END_SECONDS = 20


def find_free_port() -> int:
    """Below the range that the kernel hands out, so nobody's outgoing connection takes it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Training:
    """The ranks of one training on one port, with their output in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = find_free_port()
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, rank: int, *arguments: str, world_size: int, member: str = "unit/1/1"
    ) -> subprocess.Popen[bytes]:
        environ = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "MUSTER_MEMBER": f"{member}/{rank}",
        }
        command = [sys.executable, str(EXAMPLES / "allreduce_train.py"), *arguments]
        with self.log(rank).open("ab") as log:
            process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        self.started.append(process)
        return process

    def start_all(self, world_size: int, *arguments: str) -> list[subprocess.Popen[bytes]]:
        return [self.start(rank, *arguments, world_size=world_size) for rank in range(world_size)]

    def log(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.log"

    def text(self, rank: int) -> str:
        return self.log(rank).read_text()

    def wait_for(self, rank: int, text: str) -> None:
        deadline = time.monotonic() + END_SECONDS
        while text not in self.text(rank):
            assert time.monotonic() < deadline, f"no {text!r} in: {self.text(rank)}"
            time.sleep(0.02)

    def steps(self) -> list[int]:
        return [int(step) for step in re.findall(r"^step (\d+) of", self.text(0), re.MULTILINE)]

    def losses(self) -> list[float]:
        return [float(loss) for loss in re.findall(r"^step .* loss ([\d.]+)", self.text(0), re.MULTILINE)]

    def weights(self, rank: int) -> str:
        [found] = re.findall(r"done.* weights (\w+)$", self.text(rank), re.MULTILINE)
        return str(found)


def exit_codes(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    return [process.wait(timeout=END_SECONDS) for process in processes]


@pytest.fixture
def trainings(tmp_path: Path) -> Iterator[list[Training]]:
    """Two trainings, in folders of their own; whatever still runs at the end is killed."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Training(tmp_path / name))
    yield made
    for process in (process for training in made for process in training.started):
        process.kill()
        process.wait()


@pytest.fixture
def training(trainings: list[Training]) -> Training:
    return trainings[0]


def test_losses_fall_and_all_ranks_end_with_the_same_weights(training: Training) -> None:
    ranks = training.start_all(3, "--steps", "8")

    assert exit_codes(ranks) == [0, 0, 0]
    assert training.steps() == [1, 2, 3, 4, 5, 6, 7, 8]
    losses = training.losses()
    assert losses[-1] < losses[0] / 2
    assert losses == sorted(losses, reverse=True)
    assert training.weights(0) == training.weights(1) == training.weights(2)


def test_the_sum_of_all_shards_does_not_depend_on_their_number(trainings: list[Training]) -> None:
    """What the all-reduce is for: three ranks train as one rank would with all the data."""
    alone, together = trainings
    ends = [*alone.start_all(1, "--steps", "5"), *together.start_all(3, "--steps", "5")]

    assert exit_codes(ends) == [0, 0, 0, 0]
    assert alone.losses() == together.losses()


def test_ranks_that_start_before_rank_0_try_again(training: Training) -> None:
    early = training.start(1, "--steps", "2", world_size=2)
    training.wait_for(1, "looking for rank 0")
    time.sleep(0.3)  # at least one try has failed by now
    assert early.poll() is None

    late = training.start(0, "--steps", "2", world_size=2)
    assert exit_codes([early, late]) == [0, 0]


def test_with_one_rank_missing_nobody_moves_and_all_fail_at_their_deadline(training: Training) -> None:
    present = [training.start(1, world_size=3)]
    training.wait_for(1, "looking for rank 0")
    present.append(training.start(0, "--join-timeout", "1.5", world_size=3))

    assert exit_codes(present) == [1, 1]
    assert "waiting for ranks: 2 of 3 joined" in training.text(0)
    assert "gave up: only 2 of 3 joined in time" in training.text(0)
    assert training.steps() == []
    assert "gave up: only 2 of 3 joined in time" in training.text(1)


def test_without_rank_0_the_others_fail_at_their_deadline(training: Training) -> None:
    [code] = exit_codes([training.start(1, "--join-timeout", "0.5", world_size=2)])

    assert code == 1
    assert "gave up: the group did not come together in time" in training.text(1)


def test_a_rank_that_leaves_the_rendezvous_may_join_again(training: Training) -> None:
    first = training.start(0, "--steps", "2", world_size=3)
    gone = training.start(1, world_size=3)
    training.wait_for(0, "2 of 3 joined")
    gone.kill()
    gone.wait()
    deadline = time.monotonic() + END_SECONDS
    while training.text(0).count("1 of 3 joined") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)

    again = [training.start(rank, "--steps", "2", world_size=3) for rank in (1, 2)]
    assert exit_codes([first, *again]) == [0, 0, 0]


def test_resume_goes_on_from_the_step_of_the_checkpoint(trainings: list[Training], tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "model.json"
    stopped, whole = trainings
    assert exit_codes(stopped.start_all(2, "--steps", "4", "--checkpoint", str(file))) == [0, 0]
    assert json.loads(file.read_text())["step"] == 4

    # Another number of ranks may go on; only the last digits of the weights can differ then.
    ends = [
        *stopped.start_all(3, "--steps", "7", "--checkpoint", str(file)),
        *whole.start_all(1, "--steps", "7"),
    ]
    assert exit_codes(ends) == [0, 0, 0, 0]
    assert f"resuming from step 4 of {file}" in stopped.text(0)
    assert stopped.steps() == [1, 2, 3, 4, 5, 6, 7]
    assert stopped.losses() == whole.losses()
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"step": 1, "weights": [1.0]}', '{"step": [], "weights": 1}']
)
def test_a_broken_checkpoint_is_an_error_for_all_and_is_kept(
    training: Training, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "model.json"
    file.write_text(content)

    assert exit_codes(training.start_all(2, "--checkpoint", str(file))) == [1, 1]
    assert f"cannot resume from {file}" in training.text(1)
    assert "Traceback" not in training.text(0) + training.text(1)
    assert file.read_text() == content


@pytest.mark.parametrize("victim", [0, 2])
def test_sigkill_of_one_rank_ends_the_others(training: Training, tmp_path: Path, victim: int) -> None:
    file = tmp_path / "model.json"
    ranks = training.start_all(3, "--steps", "1000", "--step-seconds", "0.1", "--checkpoint", str(file))
    training.wait_for(0, "step 2 of")
    ranks.pop(victim).kill()

    killed_at = time.monotonic()
    assert exit_codes(ranks) == [1, 1]
    assert time.monotonic() - killed_at < 5  # the peer timeout of 30 s is not needed
    assert f"lost rank {victim}" in training.text(1)
    if victim != 0:
        assert json.loads(file.read_text())["step"] == training.steps()[-1]


def test_a_frozen_rank_is_lost_after_the_peer_timeout(training: Training) -> None:
    pace = ("--steps", "1000", "--step-seconds", "0.05", "--peer-timeout", "1.5")
    first, second, frozen = training.start_all(3, *pace)
    training.wait_for(0, "step 2 of")
    frozen.send_signal(signal.SIGSTOP)

    assert exit_codes([first, second]) == [1, 1]
    assert "lost rank 2: timed out" in training.text(0)


def test_sigterm_of_all_ranks_leaves_a_checkpoint_of_the_last_step(
    training: Training, tmp_path: Path
) -> None:
    file = tmp_path / "model.json"
    pace = ("--steps", "1000", "--step-seconds", "0.05", "--checkpoint-every", "1000")
    ranks = training.start_all(3, *pace, "--checkpoint", str(file))
    training.wait_for(0, "step 3 of")
    for rank in reversed(ranks):
        rank.terminate()

    # Who hears of another's end before its own signal ends with 1; nobody ends with 0.
    assert set(exit_codes(ranks)) <= {1, 128 + signal.SIGTERM}
    assert json.loads(file.read_text())["step"] in {training.steps()[-1], training.steps()[-1] + 1}


def test_sigterm_of_one_rank_names_it_to_the_others(training: Training) -> None:
    ranks = training.start_all(3, "--steps", "1000", "--step-seconds", "0.05")
    training.wait_for(0, "step 1 of")
    ranks[2].terminate()

    assert exit_codes(ranks) == [1, 1, 143]
    assert "rank 2 was stopped by SIGTERM" in training.text(1)


def test_sigterm_ends_the_waiting_for_others(training: Training) -> None:
    waiting = training.start(0, world_size=2)
    training.wait_for(0, "waiting for ranks: 1 of 2 joined")
    waiting.terminate()

    assert exit_codes([waiting]) == [143]


def test_strangers_do_not_break_the_rendezvous(training: Training) -> None:
    first = training.start(0, "--steps", "2", world_size=2)
    training.wait_for(0, "1 of 2 joined")
    address = ("127.0.0.1", training.port)
    with (
        socket.create_connection(address),  # says nothing, and stays
        socket.create_connection(address) as garbage,
        socket.create_connection(address) as half,
        socket.create_connection(address) as leaver,
    ):
        garbage.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + os.urandom(4096))
        half.sendall(b"allred/1")
        leaver.close()
        training.wait_for(0, "ignored a connection that is not a rank")

        second = training.start(1, "--steps", "2", world_size=2)
        assert exit_codes([first, second]) == [0, 0]


@pytest.mark.parametrize(
    ("rank", "world_size", "member", "reason"),
    [
        (1, 4, "unit/1/1", "its WORLD_SIZE is 4, here it is 3"),
        (1, 3, "unit/1/1", "that rank has joined already"),
        (2, 3, "unit/1/0", "it belongs to another run"),
    ],
    ids=["wrong world size", "second claim of a rank", "leftover of an earlier start"],
)
def test_who_does_not_belong_is_refused_and_the_others_train(
    trainings: list[Training], rank: int, world_size: int, member: str, reason: str
) -> None:
    training, wrong = trainings
    wrong.port = training.port
    ranks = [training.start(each, "--steps", "2", world_size=3) for each in (0, 1)]
    training.wait_for(0, "2 of 3 joined")

    assert exit_codes([wrong.start(rank, world_size=world_size, member=member)]) == [1]
    assert f"refused by rank 0: {reason}" in wrong.text(rank)
    assert training.steps() == []

    ranks.append(training.start(2, "--steps", "2", world_size=3))
    assert exit_codes(ranks) == [0, 0, 0]


def test_ranks_whose_weights_differ_stop_each_other(training: Training) -> None:
    ranks = [
        training.start(0, world_size=2),
        training.start(1, "--learning-rate", "0.5", world_size=2),
    ]

    assert exit_codes(ranks) == [1, 1]
    assert "not equal any more" in training.text(0)
    assert "not equal any more" in training.text(1)
    assert training.steps() == []


def test_a_taken_port_is_a_clear_error(training: Training) -> None:
    with socket.create_server(("127.0.0.1", training.port)):
        assert exit_codes([training.start(0, world_size=2)]) == [1]
    assert f"cannot listen on 127.0.0.1:{training.port}" in training.text(0)


def test_a_wrong_environment_is_named(training: Training) -> None:
    assert exit_codes([training.start(3, world_size=3)]) == [2]
    assert "RANK must be a number from 0 to 2, not '3'" in training.text(3)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_group_files_run_what_is_there(file: Path) -> None:
    group = yaml.safe_load(file.read_text())

    for role in group.get("roles", [group]):
        assert all(isinstance(word, str) for word in role["command"])
        scripts = re.findall(r"examples/\S+\.py", " ".join(role["command"]))
        assert all((EXAMPLES.parent / script).is_file() for script in scripts)
