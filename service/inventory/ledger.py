"""The GPU ledger in Redis: exact reservations, keyed and fenced.

Only the leader writes it (R5), and only as long as it is the ledger that the leader remembers
(R2). It can be rebuilt from PostgreSQL at any time (R4). One Lua file per atomic operation.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, TypedDict, TypeVar

import msgspec
import redis
from redis.commands.core import Script
from redis.exceptions import NoScriptError

from service.inventory import keys
from service.inventory.state import Answer, AttemptKey, DeviceKey, LedgerState, NodeRoom, Reservation, Stamp
from service.points import reach

#: What `stamp_of` is made from.
STAMP_FIELDS = ("incarnation", "epoch", "version")
_PARTS = ("models", "held", "lost", "room", "capacity", "holds")
#: A rebuild that was cut off leaves parts of an incarnation that never came to be; they go away.
_UNFINISHED_SECONDS = 600
_CHUNK = 5_000
#: So many attempts are written by one call, during which nobody else is served.
_BLOCKING = 100
_ANSWERS = {answer.value.encode(): answer for answer in Answer}

T = TypeVar("T")


class _Places(TypedDict):
    devices: list[str]
    room: dict[str, int]


class _Entry(_Places):
    revision: int


class LedgerFenced(Exception):
    """The ledger knows a newer epoch: this process is no leader any more."""


class Ledger:
    """Typed methods over the ledger's scripts.

    Every writing method takes the Stamp that its caller remembers and gives the next one back.
    Raises redis.ConnectionError or redis.TimeoutError when the reply is lost, which means the same
    as any answer but Done (R3).
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._reserve = self._script("reserve")
        self._release = self._script("release")
        self._drop = self._script("drop")
        self._mark = self._script("mark")
        self._raise_epoch = self._script("raise_epoch")
        self._switch = self._script("switch")

    def stamp(self) -> Stamp | None:
        """What the ledger says of itself; None when there is none."""
        return stamp_of(self._client.hmget(keys.LEDGER, STAMP_FIELDS))

    def raise_epoch(self, epoch: int) -> None:
        """Fence out every leader of an earlier epoch. Raises LedgerFenced if a newer one is here."""
        answer, _, _ = self._raise_epoch(keys=[keys.LEDGER], args=[epoch])
        if answer != b"Done":
            raise LedgerFenced(f"the ledger knows an epoch above {epoch}")

    def rebuild(self, epoch: int, state: LedgerState) -> Stamp:
        """Write `state` as a new incarnation and switch to it atomically (R4). Raises LedgerFenced."""
        old = self._client.hget(keys.LEDGER, "incarnation")
        incarnation = secrets.token_hex(8)
        self._write(incarnation, state)
        reach("worker.incarnation-written")
        parts = [keys.ledger_part(incarnation, part) for part in _PARTS]
        if old:
            parts += [keys.ledger_part(_text(old), part) for part in _PARTS]
        answer, version = self._switch(keys=[keys.LEDGER, *parts], args=[incarnation, epoch, 1, len(_PARTS)])
        if answer != b"Done":
            raise LedgerFenced(f"the ledger knows an epoch above {epoch}")
        return Stamp(incarnation, epoch, version)

    def reserve(self, stamp: Stamp, reservations: Sequence[Reservation]) -> tuple[list[Answer], Stamp]:
        """Reserve each one all or nothing; an answer for each."""
        names = [self._part(stamp, part) for part in ("models", "held", "lost", "room", "holds")]
        wanted = [_wanted(held) for held in reservations]
        calls = [
            (_attempt(held.unit_id, held.attempt), held.revision, places["devices"], places["room"])
            for held, places in zip(reservations, wanted, strict=True)
        ]
        return self._pipelined(self._reserve, [keys.LEDGER, *names], stamp=stamp, calls=calls)

    def release(self, stamp: Stamp, attempts: Sequence[AttemptKey]) -> tuple[list[Answer], Stamp]:
        """Give back all that these attempts hold; an answer for each."""
        names = [self._part(stamp, part) for part in ("held", "room", "holds")]
        calls = [_attempt(unit_id, attempt) for unit_id, attempt in attempts]
        return self._pipelined(self._release, [keys.LEDGER, *names], stamp=stamp, calls=calls)

    def drop(self, stamp: Stamp, places: Sequence[Reservation]) -> tuple[list[Answer], Stamp]:
        """Give back exactly these places of attempts that go on, whichever revision added them."""
        names = [self._part(stamp, part) for part in ("held", "room", "holds")]
        wanted = [_wanted(held) for held in places]
        calls = [
            (_attempt(held.unit_id, held.attempt), named["devices"], named["room"])
            for held, named in zip(places, wanted, strict=True)
        ]
        return self._pipelined(self._drop, [keys.LEDGER, *names], stamp=stamp, calls=calls)

    def mark(
        self, stamp: Stamp, *, lost: Iterable[DeviceKey] = (), found: Iterable[DeviceKey] = ()
    ) -> tuple[Answer, Stamp]:
        """Mark devices lost or found again. Who holds them does not change."""
        marks = {"lost": [_device(key) for key in lost], "found": [_device(key) for key in found]}
        version, answer = self._mark(
            keys=[keys.LEDGER, self._part(stamp, "lost")], args=[*_remembered(stamp), json.dumps(marks)]
        )
        return Answer(answer.decode()), replace(stamp, version=version)

    def read(self) -> LedgerState | None:
        """One consistent reading, for people and for the audit; None when there is no ledger."""
        for _ in range(5):
            stamp = self.stamp()
            if stamp is None:
                return None
            with self._client.pipeline(transaction=True) as pipe:
                pipe.hget(keys.LEDGER, "incarnation")
                for part in ("models", "capacity", "holds"):
                    pipe.hgetall(self._part(stamp, part))
                pipe.smembers(self._part(stamp, "lost"))
                incarnation, models, capacity, holds, lost = pipe.execute()
            if incarnation and incarnation.decode() == stamp.incarnation:
                return _state(models, capacity, holds=holds, lost=lost)
        return None

    def _pipelined(
        self, script: Script, names: list[str], *, stamp: Stamp, calls: Sequence[object]
    ) -> tuple[list[Answer], Stamp]:
        """One round trip for all, in calls of a bounded length."""
        if not calls:
            return [], stamp
        chunks = [calls[start : start + _BLOCKING] for start in range(0, len(calls), _BLOCKING)]
        arguments = [
            (*names, *_remembered(replace(stamp, version=stamp.version + offset)), msgspec.json.encode(chunk))
            for offset, chunk in enumerate(chunks)
        ]
        try:
            replies = self._call(script, arguments, keys_count=len(names))
        except NoScriptError:
            # Nothing has run. (redis-py would ask before each pipeline whether the server knows it.)
            self._client.script_load(script.script)
            replies = self._call(script, arguments, keys_count=len(names))
        answers: list[Answer] = []
        for chunk, (_, *given) in zip(chunks, replies, strict=True):
            found = [_ANSWERS[answer] for answer in given]
            answers += found if len(found) == len(chunk) else [Answer.STALE] * len(chunk)
        return answers, replace(stamp, version=replies[-1][0])

    def _call(self, script: Script, arguments: Sequence[tuple[Any, ...]], *, keys_count: int) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for each in arguments:
                pipe.evalsha(script.sha, keys_count, *each)
            replies: list[Any] = pipe.execute()
        return replies

    def _write(self, incarnation: str, state: LedgerState) -> None:
        parts = _hashes(state)
        with self._client.pipeline(transaction=False) as pipe:
            for part, values in parts.items():
                name = keys.ledger_part(incarnation, part)
                for chunk in _chunks(list(values.items())):
                    pipe.hset(name, mapping=dict(chunk))
                pipe.expire(name, _UNFINISHED_SECONDS)
            for places in _chunks([_device(key) for key in state.lost]):
                pipe.sadd(keys.ledger_part(incarnation, "lost"), *places)
            pipe.expire(keys.ledger_part(incarnation, "lost"), _UNFINISHED_SECONDS)
            pipe.execute()

    def _part(self, stamp: Stamp, part: str) -> str:
        return keys.ledger_part(stamp.incarnation, part)

    def _script(self, name: str) -> Script:
        source = files("service.inventory").joinpath("lua", f"{name}.lua").read_text()
        return self._client.register_script(source)


def stamp_of(values: Sequence[bytes | str | None]) -> Stamp | None:
    """The stamp that the STAMP_FIELDS of a ledger say; None when there is none."""
    incarnation, epoch, version = values
    if not incarnation or epoch is None or version is None:
        return None
    return Stamp(_text(incarnation), int(epoch), int(version))


def _hashes(state: LedgerState) -> dict[str, dict[str, str | int]]:
    capacity: dict[str, str | int] = {}
    for node_id, room in state.nodes.items():
        capacity[f"{node_id}:cpus"] = room.cpus_milli
        capacity[f"{node_id}:memory"] = room.memory_mib
    free = {name: int(amount) for name, amount in capacity.items()}
    held: dict[str, str | int] = {}
    holds: dict[str, list[_Entry]] = {}
    for reservation in state.reservations:
        attempt = _attempt(reservation.unit_id, reservation.attempt)
        wanted = _wanted(reservation)
        for place in wanted["devices"]:
            held[place] = attempt
        for name, amount in wanted["room"].items():
            free[name] = free.get(name, 0) - amount
        holds.setdefault(attempt, []).append(_Entry(revision=reservation.revision, **wanted))
    return {
        "models": {_device(key): model for key, model in state.devices.items()},
        "held": held,
        "room": dict(free),
        "capacity": capacity,
        "holds": {attempt: json.dumps(revisions) for attempt, revisions in holds.items()},
    }


def _state(
    models: dict[bytes, bytes], capacity: dict[bytes, bytes], *, holds: dict[bytes, bytes], lost: set[bytes]
) -> LedgerState:
    amounts: dict[int, dict[str, int]] = {}
    for name, amount in capacity.items():
        node, _, what = name.decode().partition(":")
        amounts.setdefault(int(node), {})[what] = int(amount)
    return LedgerState(
        nodes={
            node: NodeRoom(cpus_milli=room["cpus"], memory_mib=room["memory"])
            for node, room in amounts.items()
        },
        devices={_device_key(key.decode()): model.decode() for key, model in models.items()},
        lost=frozenset(_device_key(key.decode()) for key in lost),
        reservations=tuple(
            _reservation(attempt.decode(), entry)
            for attempt, held in holds.items()
            for entry in json.loads(held)
        ),
    )


def _reservation(attempt: str, entry: _Entry) -> Reservation:
    unit_id, _, number = attempt.partition("/")
    # Lua's JSON writes an empty table as {}, also where a list is meant: both iterate as nothing.
    return Reservation(
        unit_id=int(unit_id),
        attempt=int(number),
        revision=entry["revision"],
        devices=tuple(sorted(_device_key(place) for place in entry["devices"])),
        cpus_milli=_amounts(entry["room"], "cpus"),
        memory_mib=_amounts(entry["room"], "memory"),
    )


def _amounts(room: dict[str, int], what: str) -> dict[int, int]:
    pairs = ((name.partition(":"), amount) for name, amount in room.items())
    return {int(node): amount for (node, _, kind), amount in pairs if kind == what}


def _wanted(held: Reservation) -> _Places:
    # Whoever asks for nothing needs no room, also on a node that shrank below what it runs.
    room = {f"{node}:cpus": amount for node, amount in held.cpus_milli.items() if amount}
    room |= {f"{node}:memory": amount for node, amount in held.memory_mib.items() if amount}
    return {"devices": [_device(key) for key in held.devices], "room": room}


def _attempt(unit_id: int, attempt: int) -> str:
    return f"{unit_id}/{attempt}"


def _remembered(stamp: Stamp) -> tuple[str, int, int]:
    return stamp.incarnation, stamp.epoch, stamp.version


def _device(key: DeviceKey) -> str:
    return f"{key[0]}.{key[1]}"


def _device_key(text: str) -> DeviceKey:
    node, _, device = text.partition(".")
    return int(node), int(device)


def _chunks(items: list[T]) -> Iterable[list[T]]:
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def _text(value: bytes | str) -> str:
    """redis-py's types cannot know that answers are not decoded here."""
    return value.decode() if isinstance(value, bytes) else value
