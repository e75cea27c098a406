"""The launcher protocol: how Muster starts, watches and ends members on a backend.

Every call takes a list, is idempotent, and may be repeated after a crash of the caller. The rules
are X1-X7 of the consistency page: what was closed never starts again, and a reservation ends only
after its attempt is closed and its processes are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable


class GenerationKey(NamedTuple):
    """One set of live members of one attempt of a unit."""

    unit_id: int
    attempt: int
    generation: int


class MemberKey(NamedTuple):
    unit_id: int
    attempt: int
    generation: int
    member: int

    @property
    def of(self) -> GenerationKey:
        return GenerationKey(self.unit_id, self.attempt, self.generation)

    def __str__(self) -> str:
        """The mark that every process of the member carries in MUSTER_MEMBER (X4)."""
        return f"{self.unit_id}/{self.attempt}/{self.generation}/{self.member}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLaunch:
    """One member to start. `revision`: that of the attempt's places which gave it its own; a member that
    was closed is started again only under a higher one. `devices` are GPU indexes on `node`; `rank` counts
    from 0 within the unit, `local_rank` among its members on the same node; `member_count` are all members
    that the group asks for, of which the key names one. Members of one generation of a gang are launched in
    one call, besides those that a ResizingLauncher starts later. `claimed_at`: a claim older than an hour is
    refused (X6)."""

    key: MemberKey
    group_name: str
    role: str
    node: str
    devices: tuple[int, ...]
    cpus_milli: int
    memory_mib: int
    command: tuple[str, ...]
    workdir: str | None
    image: str | None
    env: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    rank: int
    world_size: int
    local_rank: int
    member_count: int
    claimed_at: datetime
    revision: int = 1


class Outcome(StrEnum):
    """`Started` also when the same launch was carried out before; `Refused`: closed, too old, or
    the backend says no (back off); `Conflict`: the same key runs with other places;
    `CannotExecute`: the command cannot be executed, which fails the group at once."""

    STARTED = "Started"
    REFUSED = "Refused"
    CONFLICT = "Conflict"
    CANNOT_EXECUTE = "CannotExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    key: MemberKey
    outcome: Outcome
    message: str | None = None


class MemberState(StrEnum):
    """`Lost`: gone without an exit code (its node went down, its supervisor was killed)."""

    STARTING = "Starting"
    READY = "Ready"
    ENDED = "Ended"
    LOST = "Lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberObservation:
    """What is known of one member that was launched and not forgotten. `exit_code` is 128 + n
    after signal n; `was_told_to_stop`: SIGTERM was sent before it ended, so exit 0 is no success.
    `ended_at` is the launcher's instant, not the reader's. `node` and `devices`: where it was
    launched, so that what is not in the books can be compared and its devices found (T1).
    `is_node_lost`: it is Lost because its node went down or was started anew."""

    key: MemberKey
    state: MemberState
    exit_code: int | None = None
    ended_at: datetime | None = None
    was_told_to_stop: bool = False
    cannot_execute: bool = False
    detail: str | None = None
    node: str | None = None
    devices: tuple[int, ...] = ()
    is_node_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseResult:
    """`is_closed`: the tombstone is durable and no process of that generation, or of one before
    it, is left. `survivors`: members whose processes are still there; ask again."""

    key: GenerationKey
    is_closed: bool
    survivors: tuple[MemberKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    index: int
    model: str
    memory_mib: int
    uuid: str | None = None
    is_healthy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A node as the launcher sees it. A node that a launcher served and no longer names, or names
    with `is_ready` False, is down; another `boot_id` means that all its processes are gone."""

    name: str
    cpus_milli: int
    memory_mib: int
    labels: Mapping[str, str]
    devices: tuple[DeviceReport, ...]
    is_ready: bool = True
    boot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """`kind` names the launcher; a simulated one says so wherever it shows. `can_resize`: it is a
    ResizingLauncher."""

    kind: str
    is_simulated: bool = False
    has_logs: bool = True
    can_resize: bool = False


class LauncherUnreachable(Exception):
    """The backend does not answer. Nothing is concluded from that about its members."""


class Launcher(Protocol):
    """A backend. Every method may raise LauncherUnreachable and then had no known effect."""

    def capabilities(self) -> Capabilities: ...

    def inventory(self) -> Sequence[NodeReport]: ...

    def launch(self, members: Sequence[MemberLaunch]) -> Sequence[LaunchResult]:
        """Start members; one result for each, in order. Idempotent by key (X7)."""

    def observe(self) -> Sequence[MemberObservation]:
        """Every member that is known here, live or ended, until it is forgotten."""

    def terminate(self, members: Sequence[MemberKey], *, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace. Repeating neither restarts nor extends the grace."""

    def close(self, generations: Sequence[GenerationKey]) -> Sequence[CloseResult]:
        """Durably forbid these generations and all before them of the same attempt, and earlier
        attempts of the unit; end what is left of them at once (X2, X3)."""

    def forget(self, generations: Sequence[GenerationKey]) -> None:
        """Their ends are recorded: the launcher may drop what it kept of them, except tombstones (X6)."""

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call `wake` from any thread whenever `observe` or `inventory` would say something new."""

    def stop(self) -> None:
        """Release threads and sockets of this object. Members live on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClosing:
    """Close this member as it was placed up to `revision`."""

    key: MemberKey
    revision: int


@runtime_checkable
class ResizingLauncher(Launcher, Protocol):
    """A backend that starts and stops single members of a generation while its others run: `launch` takes
    members of a generation that lives already."""

    def close_members(self, members: Sequence[MemberClosing]) -> Sequence[bool]:
        """As `close`, of single members: durably forbid to launch them under this revision or an earlier
        one, end what is left of them at once, and forget them. True for each of which nothing is left;
        ask again for the others."""
