"""Groups as the API answers them. Instants are aware; amounts are GPUs, CPUs and GiB."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class Size(Struct, frozen=True, kw_only=True):
    """Of an elastic group: the fewest members that it starts with, and what it holds now."""

    min_members: int
    present_members: int
    present_gpus: int


class GroupBrief(Struct, frozen=True, kw_only=True):
    """A group in a list. Of another owner's group everything but size and position is None."""

    id: str | None
    name: str | None
    queue: str
    tenant: str | None
    owner: str | None
    priority: int | None
    scheduling: str | None
    status: str | None
    units: dict[str, int] | None
    is_waiting: bool
    position: int | None
    wanted_members: int
    wanted_gpus: int
    size: Size | None
    attempt: int | None
    submitted_at: datetime | None
    admitted_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    message: str | None
    labels: dict[str, str] | None


class GroupPlace(Struct, frozen=True, kw_only=True):
    """What a group holds on one node."""

    node: str
    gpus: int
    members: int


class After(Struct, frozen=True, kw_only=True):
    """A group that has to end first, and how: `ok`, `not_ok` or `any`."""

    group: str
    when: str


class Claim(Struct, frozen=True, kw_only=True):
    """Places that are kept for a group that waits. `cause`: Head, Guard or Preemption; `due_at`: when they
    should be free, None while somebody on them has no time limit; `redated`: how many dates have passed."""

    cause: str
    made_at: datetime
    due_at: datetime | None
    redated: int
    gpus: int


class Recovery(Struct, frozen=True, kw_only=True):
    on_member_loss: str
    max_restarts: int
    backoff_seconds: int
    seat_timeout_seconds: int


class Requests(Struct, frozen=True, kw_only=True):
    """What one member gets on its node."""

    gpus: int
    cpus: float
    memory_gib: float


class Gpu(Struct, frozen=True, kw_only=True):
    """`models` in order of preference; so long it waits for each before it takes the next."""

    models: list[str]
    min_memory_gib: int
    fallback_after_seconds: int


class Slice(Struct, frozen=True, kw_only=True):
    """Each `size` neighbours in rank lie in one domain of `level`."""

    level: str
    size: int


class Role(Struct, frozen=True, kw_only=True):
    """`env` with sensitive values masked, `secrets` as names only."""

    name: str
    count: int
    min_count: int
    requests: Requests
    gpu: Gpu
    node_labels: dict[str, str]
    slice: Slice | None
    command: list[str]
    workdir: str | None
    image: str | None
    env: dict[str, str]
    secrets: list[str]
    ready: str


class Elastic(Struct, frozen=True, kw_only=True):
    """What the application can do with another number of members; `resize`: at_start, while_running."""

    resize: str
    resumes_from_checkpoint: bool


class Group(Struct, frozen=True, kw_only=True):
    """One group in full. `attempt` and `generation` are a gang's; members of an independent group
    have their own. `units` counts by status: a gang is one, each independent member is one."""

    id: str
    name: str
    queue: str
    tenant: str
    owner: str
    priority: int
    scheduling: str
    status: str
    units: dict[str, int]
    is_waiting: bool
    position: int | None
    wanted_members: int
    wanted_gpus: int
    present_members: int
    succeeded_members: int
    attempt: int | None
    generation: int | None
    places: list[GroupPlace]
    claim: Claim | None
    pool: str | None
    is_unreachable: bool
    is_held: bool
    submitted_at: datetime
    admitted_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None
    backoff_until: datetime | None
    time_limit_at: datetime | None
    cause: str | None
    message: str | None
    failed_member: int | None
    dispatches: int
    refused_dispatches: int
    restarts_used: int
    roles: list[Role]
    topology_required: str | None
    elastic: Elastic | None
    topology_preferred: str | None
    is_preference_met: bool | None
    time_limit_seconds: int | None
    start_timeout_seconds: int | None
    grace_seconds: int
    recovery: Recovery
    preemptible: bool
    labels: dict[str, str]
    after: list[After]
    not_before_at: datetime | None
    allow_infeasible: bool


class Submitted(Struct, frozen=True, kw_only=True):
    """One group of a batch: it exists, and is not admitted yet."""

    id: str
    name: str
    queue: str


class Batch(Struct, frozen=True, kw_only=True):
    groups: list[Submitted]


class GroupPage(Struct, frozen=True, kw_only=True):
    groups: list[GroupBrief]
    cursor: str | None
