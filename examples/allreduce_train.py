#!/usr/bin/env python3
"""Synchronous data-parallel training in two short files, with only the standard library.

Every rank (one process) holds the same model and its own shard of the data. In each step a rank
computes the gradient on its shard, an all-reduce adds the gradients of all ranks up, and every rank
applies the same sum, so the models stay equal. That is how PyTorch DDP or Horovod train; only the
model here (logistic regression) and the network (`allreduce_ranks.py`: plain TCP through rank 0)
are small enough to be read in one sitting.

It is also the reason why such jobs must be admitted whole: with one rank missing, the others hold
their GPUs and cannot take a single step. They wait in the rendezvous until their deadline.

Run it by hand with two ranks:

    export MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 WORLD_SIZE=2
    RANK=1 python3 examples/allreduce_train.py --steps 20 &
    RANK=0 python3 examples/allreduce_train.py --steps 20

Start only one of them to see it wait. Add `--checkpoint /tmp/model.json` to rank 0, stop either
rank with Ctrl-C or `kill`, start both again: the training goes on where it was.

Exit code: 0 all steps done · 1 a rank did not join, was refused or was lost · 2 wrong arguments or
environment · 128 + signal after SIGTERM or SIGINT (143, 130).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from allreduce_ranks import Place, Ranks, TrainingError, fingerprint, rendezvous, say, send_stop

FEATURES = 8


# --- The model: logistic regression on generated data -------------------------------------------

Sample = tuple[list[float], int]


class State(NamedTuple):
    """What a checkpoint holds: the weights after `step` steps. Replaced whole, never edited."""

    step: int
    weights: list[float]  # one for each feature, then the bias


def make_shard(place: Place, *, samples: int, seed: int) -> list[Sample]:
    """Every WORLD_SIZE-th sample. A sample depends on its number alone, so the whole data set is
    the same for any number of ranks, and no rank ever makes the parts of the others."""
    truth = [random.Random(f"{seed}/truth").gauss(0, 1) for _ in range(FEATURES)]
    return [make_sample(truth, f"{seed}/{n}") for n in range(place.rank, samples, place.world_size)]


def make_sample(truth: Sequence[float], name: str) -> Sample:
    source = random.Random(name)
    features = [source.gauss(0, 1) for _ in truth]
    noise = source.gauss(0, 0.3)
    return features, int(dot(truth, features) + noise > 0)


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def shard_sums(weights: Sequence[float], shard: Iterable[Sample]) -> list[float]:
    """Sums over one shard: samples, loss, right answers, then the gradient for each weight."""
    count = loss = right = 0.0
    gradient = [0.0] * len(weights)
    for features, label in shard:
        inputs = [*features, 1.0]
        z = dot(weights, inputs)
        error = 0.5 * (1 + math.tanh(z / 2)) - label  # tanh form of the sigmoid: no overflow
        count += 1
        loss += max(z, 0.0) - z * label + math.log1p(math.exp(-abs(z)))
        right += (z > 0) == bool(label)
        gradient = [g + error * x for g, x in zip(gradient, inputs, strict=True)]
    return [count, loss, right, *gradient]


# --- Being stopped ------------------------------------------------------------------------------

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(TrainingError):
    """This process was asked to end (SIGTERM or SIGINT)."""

    def __init__(self, rank: int, signum: int) -> None:
        super().__init__(f"rank {rank} was stopped by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


def stop_on_signals(rank: int) -> None:
    for signum in STOP_SIGNALS:
        signal.signal(signum, functools.partial(raise_stopped, rank))


def raise_stopped(rank: int, signum: int, _: FrameType | None) -> None:
    """Ends any wait at once. Only the first signal counts: what follows is the clean-up."""
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(rank, signum)


@contextlib.contextmanager
def stop_signals_held_back() -> Iterator[None]:
    """All ranks get their SIGTERM at about the same time. The one that strikes rank 0 while it
    saves because another rank has left must not cost the checkpoint: it is delivered after."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


# --- Checkpoints: rank 0 writes, all start from what rank 0 has ---------------------------------


def encode_state(state: State) -> bytes:
    return json.dumps(state._asdict()).encode()


def decode_state(encoded: bytes) -> State:
    """ValueError if it is not a state of this model."""
    found = json.loads(encoded)
    if not isinstance(found, dict) or found.keys() != set(State._fields):
        raise ValueError("it is not a checkpoint of this program")
    state = State(int(found["step"]), [float(weight) for weight in found["weights"]])
    if state.step < 0 or len(state.weights) != FEATURES + 1:
        raise ValueError("it is of another model")
    return state


def save_checkpoint(path: Path, state: State) -> None:
    """Whole or not at all: a kill or a power cut leaves the old file or the new one."""
    draft = path.with_name(path.name + ".tmp")
    try:
        with stop_signals_held_back():
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(encode_state(state))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
    except OSError as error:
        raise TrainingError(f"cannot write the checkpoint {path}: {error}") from error


def find_checkpoint(path: Path | None) -> State | None:
    try:
        return decode_state(path.read_bytes()) if path else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"cannot resume from {path}: {error}") from error


def common_start(ranks: Ranks, path: Path | None) -> State:
    """Only rank 0 reads the file, so the ranks need no shared disk and cannot start apart."""
    state = State(0, [0.0] * (FEATURES + 1))
    if ranks.rank == 0 and (found := find_checkpoint(path)):
        state = found
        say(f"resuming from step {state.step} of {path}")
    return decode_state(ranks.broadcast(encode_state(state)))


# --- The training -------------------------------------------------------------------------------


class Metrics(NamedTuple):
    loss: float  # mean over the whole data set, before the step
    accuracy: float


def measure(ranks: Ranks, weights: Sequence[float], shard: list[Sample]) -> tuple[Metrics, list[float]]:
    """Metrics and mean gradient of all shards together: the all-reduce of every step."""
    count, loss, right, *gradient = ranks.all_reduce(shard_sums(weights, shard))
    return Metrics(loss / count, right / count), [g / count for g in gradient]


def take_step(
    ranks: Ranks, state: State, shard: list[Sample], *, learning_rate: float
) -> tuple[State, Metrics]:
    metrics, gradient = measure(ranks, state.weights, shard)
    moves = zip(state.weights, gradient, strict=True)
    weights = [weight - learning_rate * slope for weight, slope in moves]
    ranks.check_equal(weights)
    return State(state.step + 1, weights), metrics


def train(ranks: Ranks, shard: list[Sample], options: argparse.Namespace) -> State:
    """All steps that are left. Whatever ends it early, rank 0 saves the last whole step."""
    state = common_start(ranks, options.checkpoint)
    saves = ranks.rank == 0 and options.checkpoint is not None
    try:
        while state.step < options.steps:
            time.sleep(options.step_seconds)
            state, metrics = take_step(ranks, state, shard, learning_rate=options.learning_rate)
            if ranks.rank == 0:
                say(f"step {state.step} of {options.steps}: loss {metrics.loss:.4f}")
            if saves and state.step % options.checkpoint_every == 0:
                save_checkpoint(options.checkpoint, state)
    finally:
        # Right at any moment: `state` is replaced only after all ranks agreed on the new one.
        if saves:
            save_checkpoint(options.checkpoint, state)
    return state


def work(place: Place, options: argparse.Namespace) -> None:
    """The whole life of one rank."""
    links = rendezvous(place, join_timeout=options.join_timeout)
    say(f"rank {place.rank}: all {place.world_size} ranks joined")
    # A peer may rest for a whole step, so that rest is added to the patience with it.
    ranks = Ranks(place, links, timeout=options.peer_timeout + options.step_seconds)
    try:
        shard = make_shard(place, samples=options.samples, seed=options.seed)
        state = train(ranks, shard, options)
        metrics, _ = measure(ranks, state.weights, shard)
        report(place, state, metrics)
    except TrainingError as error:
        send_stop(links.values(), str(error))
        raise
    finally:
        ranks.close()


def report(place: Place, state: State, metrics: Metrics) -> None:
    weights = fingerprint(state.weights).hex()
    if place.rank == 0:
        result = f"loss {metrics.loss:.4f}, accuracy {metrics.accuracy:.3f}, weights {weights}"
        say(f"done: {state.step} steps with {place.world_size} ranks, {result}")
    else:
        say(f"rank {place.rank}: done, weights {weights}")


# --- The command --------------------------------------------------------------------------------


def read_place(environ: Mapping[str, str]) -> Place:
    """ValueError that names the variable."""
    missing = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} - environ.keys()
    if missing:
        raise ValueError(f"not in the environment: {', '.join(sorted(missing))}")
    world_size = read_number(environ, "WORLD_SIZE", range(1, 10_001))
    rank = read_number(environ, "RANK", range(world_size))
    port = read_number(environ, "MASTER_PORT", range(1, 65_536))
    # Muster marks its processes with unit/attempt/generation/rank. Without the rank that names this
    # start of the group, so a leftover of an earlier one is not taken in. By hand it is empty.
    run = environ.get("MUSTER_MEMBER", "").rpartition("/")[0]
    run_id = hashlib.sha256(run.encode()).digest()[:8]
    return Place(rank, world_size, environ["MASTER_ADDR"], port, run_id)


def read_number(environ: Mapping[str, str], name: str, allowed: range) -> int:
    text = environ[name]
    if not text.isdecimal() or int(text) not in allowed:
        bounds = f"{allowed.start} to {allowed.stop - 1}"
        raise ValueError(f"{name} must be a number from {bounds}, not {text!r}")
    return int(text)


def count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def seconds(text: str) -> float:
    if not 0 <= (number := float(text)) < 1e6:
        raise ValueError
    return number


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--steps", type=count, default=20, help="train until this step (default: 20)")
    add("--step-seconds", type=seconds, default=0.0, help="rest before each step, for a demo")
    add("--checkpoint", type=Path, help="file of rank 0: resume from it, save to it")
    add("--checkpoint-every", type=count, default=5, metavar="N", help="in steps (default: 5)")
    add("--join-timeout", type=seconds, default=300.0, help="for all ranks to join (300 s)")
    add("--peer-timeout", type=seconds, default=30.0, help="for one silent peer (30 s)")
    add("--learning-rate", type=float, default=1.0)
    add("--samples", type=count, default=600, help="in all shards together (default: 600)")
    add("--seed", type=int, default=1, help="of the generated data")
    return parser


def main() -> int:
    parser = make_parser()
    options = parser.parse_args()
    try:
        place = read_place(os.environ)
    except ValueError as error:
        parser.error(str(error))
    try:
        stop_on_signals(place.rank)
        work(place, options)
    except TrainingError as error:
        print(f"rank {place.rank} ends: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
