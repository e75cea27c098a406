"""How the ranks of `allreduce_train.py` find each other and compute together.

Three layers, from the bottom up: messages on a TCP connection; the rendezvous, in which every rank
connects to rank 0 and nobody moves before all are there; the collectives (`Ranks`), above all the
all-reduce. All goes through rank 0: 2 x (n - 1) messages for one all-reduce, which is right for the
few numbers here. For millions of gradients a ring, as NCCL builds it, spreads the traffic.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

RETRY_SECONDS = 0.2


class TrainingError(Exception):
    """The training cannot go on; the text is for people, the code is the exit code."""

    exit_code = 1


class Place(NamedTuple):
    """Who this process is and where rank 0 listens: what a launcher puts into the environment."""

    rank: int
    world_size: int
    address: str
    port: int
    run: bytes  # tells this run from another one, or an older start, on the same port


def say(line: str) -> None:
    print(line, flush=True)  # at once, also into a file: somebody may be watching


# --- Messages on the wire -----------------------------------------------------------------------
# Fixed binary layouts and never pickle: whoever reaches the port could run code through pickle.

MAGIC = b"allred/1"
HELLO = struct.Struct("!8s8sII")  # magic, run, rank, world size: the first bytes of a rank
HEADER = struct.Struct("!cI")  # kind, length of the body
GO, DATA, STOP = b"G", b"D", b"S"
MAX_BODY_BYTES = 1 << 20


def send(link: socket.socket, kind: bytes, body: bytes = b"") -> None:
    link.sendall(HEADER.pack(kind, len(body)) + body)


def receive(link: socket.socket, expected: bytes) -> bytes:
    """The body of the next message. TrainingError if the peer says STOP, else OSError."""
    kind, length = HEADER.unpack(receive_exactly(link, HEADER.size))
    if kind not in (expected, STOP) or length > MAX_BODY_BYTES:
        raise ConnectionError("the other side does not speak this protocol")
    body = receive_exactly(link, length)
    if kind == STOP:
        raise TrainingError(body.decode(errors="replace"))
    return body


def receive_exactly(link: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = link.recv(size - len(received))
        if not chunk:
            raise ConnectionError("connection closed")
        received += chunk
    return received


def send_stop(links: Iterable[socket.socket], reason: str) -> None:
    """Tell the others why, so that the first cause is in every rank's log."""
    for link in links:
        with contextlib.suppress(OSError):  # who is gone already needs no telling
            send(link, STOP, reason.encode())


def fingerprint(weights: Sequence[float]) -> bytes:
    return hashlib.sha256(pack_floats(weights)).digest()[:8]


def pack_floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"!{len(values)}d", *values)


def unpack_floats(packed: bytes) -> list[float]:
    return list(struct.unpack(f"!{len(packed) // 8}d", packed))


# --- Rendezvous: nobody moves before everybody is there -----------------------------------------


def rendezvous(place: Place, *, join_timeout: float) -> dict[int, socket.socket]:
    """Rank 0 gets a link to every other rank, the others one to rank 0."""
    deadline = time.monotonic() + join_timeout
    if place.rank == 0:
        return accept_ranks(place, deadline)
    say(f"rank {place.rank}: looking for rank 0 at {place.address}:{place.port}")
    return {0: join(place, deadline)}


def accept_ranks(place: Place, deadline: float) -> dict[int, socket.socket]:
    try:
        server = socket.create_server((place.address, place.port), backlog=place.world_size + 16)
    except OSError as error:
        where = f"{place.address}:{place.port}"
        raise TrainingError(f"rank 0 cannot listen on {where}: {error}") from error
    with server, Lobby(place, server) as lobby:
        try:
            lobby.wait(deadline)
        except TrainingError as error:
            send_stop(lobby.joined.values(), str(error))
            raise
        return lobby.joined


class Lobby:
    """Rank 0 while it waits. It reads from all connections at once and blocks on none, so a
    stranger that says nothing (a port scan, a health check) does not keep the ranks waiting."""

    def __init__(self, place: Place, server: socket.socket) -> None:
        self.place = place
        self.joined: dict[int, socket.socket] = {}
        self.heard: dict[socket.socket, bytes] = {}  # hellos that have not come in whole yet
        self.selector = selectors.DefaultSelector()
        server.setblocking(False)
        self.when_readable(server, self.accept)

    def __enter__(self) -> Lobby:
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()
        for stranger in self.heard:
            stranger.close()

    def when_readable(self, link: socket.socket, handler: Callable[[socket.socket], None]) -> None:
        self.selector.register(link, selectors.EVENT_READ, handler)

    def wait(self, deadline: float) -> None:
        """Until all have joined, then let all go at once. TrainingError at the deadline."""
        self.announce()
        while len(self.joined) + 1 < self.place.world_size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TrainingError(f"gave up: only {self.count()} joined in time")
            for key, _ in self.selector.select(left):
                key.data(key.fileobj)
        for rank, link in self.joined.items():
            with peer_errors(rank):
                send(link, GO)

    def count(self) -> str:
        return f"{len(self.joined) + 1} of {self.place.world_size}"

    def announce(self) -> None:
        say(f"waiting for ranks: {self.count()} joined")

    def accept(self, server: socket.socket) -> None:
        try:
            link, _ = server.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it left again before it was its turn
        link.setblocking(False)
        self.heard[link] = b""
        self.when_readable(link, self.hear)

    def hear(self, link: socket.socket) -> None:
        """A part of a hello came in, or the connection ended."""
        try:
            chunk = link.recv(HELLO.size - len(self.heard[link]))
        except OSError:
            chunk = b""
        self.heard[link] += chunk
        if not chunk:
            self.forget(link)
        elif len(self.heard[link]) == HELLO.size:
            self.greet(link)

    def greet(self, link: socket.socket) -> None:
        """A whole hello is here: take the rank in, or send the caller away."""
        magic, run, rank, world_size = HELLO.unpack(self.heard[link])
        if magic != MAGIC:
            say("ignored a connection that is not a rank")
            self.forget(link)
        elif refusal := self.find_refusal(run, rank, world_size):
            say(f"refused a process that says it is rank {rank}: {refusal}")
            send_stop([link], f"refused by rank 0: {refusal}")
            self.forget(link)
        else:
            self.take_in(link, rank)

    def find_refusal(self, run: bytes, rank: int, world_size: int) -> str | None:
        """Only the caller is sent away. It ends with an error, which its launcher sees; rank 0
        cannot know whether it is one of ours or a leftover of another run, and waits on."""
        if run != self.place.run:
            return "it belongs to another run"
        if world_size != self.place.world_size:
            return f"its WORLD_SIZE is {world_size}, here it is {self.place.world_size}"
        if not 0 < rank < world_size:
            return f"there is no such rank among {world_size}"
        if rank in self.joined:
            return "that rank has joined already"
        return None

    def take_in(self, link: socket.socket, rank: int) -> None:
        del self.heard[link]
        self.joined[rank] = link
        # A rank that has joined is silent until GO, so "readable" means that it is gone.
        self.selector.modify(link, selectors.EVENT_READ, functools.partial(self.leave, rank))
        self.announce()

    def leave(self, rank: int, link: socket.socket) -> None:
        del self.joined[rank]
        self.forget(link)
        self.announce()

    def forget(self, link: socket.socket) -> None:
        self.heard.pop(link, None)
        self.selector.unregister(link)
        link.close()


def join(place: Place, deadline: float) -> socket.socket:
    """Ranks start in any order: try until rank 0 is there and says GO, or the deadline is over.

    Being refused is final (TrainingError); anything else that goes wrong is tried again."""
    while True:
        try:
            return knock(place, deadline)
        except OSError as error:
            cause = error
        if time.monotonic() + RETRY_SECONDS > deadline:
            raise TrainingError(f"gave up: the group did not come together in time ({cause})")
        time.sleep(RETRY_SECONDS)


def knock(place: Place, deadline: float) -> socket.socket:
    left = max(deadline - time.monotonic(), RETRY_SECONDS)
    link = socket.create_connection((place.address, place.port), timeout=left)
    try:
        if link.getsockname() == link.getpeername():
            # With no listener, TCP may pick the target as its own source port, and connect.
            raise ConnectionError("connected to itself")
        link.sendall(HELLO.pack(MAGIC, place.run, place.rank, place.world_size))
        receive(link, GO)
    except BaseException:
        link.close()
        raise
    return link


# --- Collectives: what all ranks do together ----------------------------------------------------


@contextlib.contextmanager
def peer_errors(rank: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(f"lost rank {rank}: {error}") from error


class Ranks:
    """All ranks, joined through rank 0. Every rank must make the same calls in the same order.

    No call waits for a peer longer than `timeout` seconds: TrainingError then, and if one is lost.
    """

    def __init__(self, place: Place, links: dict[int, socket.socket], *, timeout: float) -> None:
        self.rank, self.world_size = place.rank, place.world_size
        self.links = dict(sorted(links.items()))
        for link in links.values():
            link.settimeout(timeout)

    def gather(self, body: bytes) -> list[bytes]:
        """Rank 0 gets what every rank gave, in the order of ranks; the others get nothing."""
        if self.rank == 0:
            return [body, *(self.receive_from(rank) for rank in self.links)]
        self.send_to(0, body)
        return []

    def broadcast(self, body: bytes) -> bytes:
        """Every rank gets what rank 0 gave."""
        if self.rank != 0:
            return self.receive_from(0)
        for rank in self.links:
            self.send_to(rank, body)
        return body

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """The sums over all ranks, position by position, the same on every rank to the last bit:
        only rank 0 adds, and `fsum` rounds once, whatever the order."""
        parts = [unpack_floats(part) for part in self.gather(pack_floats(values))]
        sums = [math.fsum(column) for column in zip(*parts, strict=True)]
        return unpack_floats(self.broadcast(pack_floats(sums)))

    def check_equal(self, weights: Sequence[float]) -> None:
        """Every rank sees the fingerprints of all ranks. TrainingError if they are not one."""
        mine = fingerprint(weights)
        everyones = self.broadcast(b"".join(self.gather(mine)))
        if everyones != mine * self.world_size:
            raise TrainingError("the ranks' weights are not equal any more")

    def send_to(self, rank: int, body: bytes) -> None:
        with peer_errors(rank):
            send(self.links[rank], DATA, body)

    def receive_from(self, rank: int) -> bytes:
        with peer_errors(rank):
            return receive(self.links[rank], DATA)

    def close(self) -> None:
        for link in self.links.values():
            link.close()
