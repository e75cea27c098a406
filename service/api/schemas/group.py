"""The group as it is sent: long form with `roles`, short form for one role."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from msgspec import Meta, field

from service.domain.dependency import When
from service.domain.group import OnMemberLoss
from service.domain.resources import MAX_GPUS_PER_MEMBER
from service.domain.shape import Scheduling, Sizing
from service.domain.unit import MAX_MEMBERS
from service.wire.group_values import ClassName, Labels, Priority
from service.wire.patterns import LINE, NO_NUL, NO_NUL_LINES, VARIABLE
from service.wire.values import Cpus, Duration, LongText, MemoryGib, Name, RequestStruct, ShortText

#: So many groups may be sent at once.
MAX_BATCH = 10_000

Count: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_MEMBERS)]
Gpus: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_GPUS_PER_MEMBER)]
#: Text of one line, without control characters: it is shown in tables.
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=LINE)]
VariableName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=VARIABLE)]
Variables: TypeAlias = Annotated[dict[VariableName, LongText], Meta(max_length=512)]
Command: TypeAlias = Annotated[list[LongText], Meta(min_length=1, max_length=1024)]
Path: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096, pattern=NO_NUL)]


class RequestsRequest(RequestStruct, frozen=True, kw_only=True):
    """What one member needs on one node. CPUs and GiB that are not given: one for each GPU, at
    least one."""

    gpus: Gpus = 0
    cpus: Cpus | None = None
    memory_gib: MemoryGib | None = None


class GpuRequest(RequestStruct, frozen=True, kw_only=True):
    """Which GPUs will do: `models` in order of preference, none for any. `fallback_after`: how long to wait
    for the first model alone before the second is considered, and as long again for each after it."""

    models: Annotated[list[Line], Meta(max_length=64)] = field(default_factory=list)
    min_memory_gib: Annotated[int, Meta(ge=0, le=65_536)] = 0
    fallback_after: Duration = 0


class SliceRequest(RequestStruct, frozen=True, kw_only=True):
    """Each `size` members that follow each other in rank lie in one domain of `level`, such as an NVLink
    island. The count of the role is a multiple of the size."""

    level: Line
    size: Count


class RoleRequest(RequestStruct, frozen=True, kw_only=True):
    """Members of one shape. `workdir` is an absolute path. `env` and `secrets` may not name what a
    member gets from Muster: `MUSTER_...`, `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR`, `MASTER_PORT`,
    `CUDA_VISIBLE_DEVICES`, `CUDA_DEVICE_ORDER`."""

    name: Name = "worker"
    count: Count = 1
    min_count: Count | None = None
    requests: RequestsRequest = RequestsRequest()
    gpu: GpuRequest | None = None
    node_labels: Labels = field(default_factory=dict)
    slice: SliceRequest | None = None
    command: Command | None = None
    workdir: Path | None = None
    image: Path | None = None
    env: Variables = field(default_factory=dict)
    secrets: Variables = field(default_factory=dict)
    ready: ShortText = "started"


class TopologyRequest(RequestStruct, frozen=True, kw_only=True):
    """Levels of a pool, such as rack. All members lie in one domain of the `required` one; and in one of the
    `preferred` one where one has room, else of the next wider level that has."""

    required: Line | None = None
    preferred: Line | None = None


class ElasticRequest(RequestStruct, frozen=True, kw_only=True):
    """What the application can do with fewer members than `count`, down to `min_count`: `at_start`, its
    size is chosen once, when it is admitted; `while_running`, it also grows and shrinks later."""

    resize: Sizing
    resumes_from_checkpoint: bool = False


class RecoveryRequest(RequestStruct, frozen=True, kw_only=True):
    on_member_loss: Literal["restart_group", "restart_member", "continue", "fail"] = (
        OnMemberLoss.RESTART_GROUP.value
    )
    max_restarts: Annotated[int, Meta(ge=0, le=1_000_000)] = 3
    backoff: Duration = "30s"
    seat_timeout: Duration = "10m"


class CheckpointRequest(RequestStruct, frozen=True, kw_only=True):
    """`grace`: from SIGTERM to SIGKILL."""

    grace: Duration = "30s"


class AfterRequest(RequestStruct, frozen=True, kw_only=True):
    """Start only when another group has ended: `ok` is Succeeded, `not_ok` is Failed, `any` is in whatever
    way; all of a group counts. The other is there already, or, in a batch, an earlier group of the same
    batch, named by its index."""

    group: UUID | None = None
    batch_index: Annotated[int, Meta(ge=0, lt=MAX_BATCH)] | None = None
    when: When = When.OK


class GroupRequest(RequestStruct, frozen=True, kw_only=True):
    """A group. With `roles`, or in the short form, where `members`, `gpus`, `command` and the
    other fields of a role at the top level make one role named `worker`. It does not start before
    `not_before`, an instant with its zone."""

    name: Line
    queue: Annotated[str, Meta(min_length=1, max_length=63, pattern=NO_NUL_LINES)] = "default"
    priority: Priority | ClassName = 0
    scheduling: Scheduling = Scheduling.GANG
    roles: Annotated[list[RoleRequest], Meta(min_length=1, max_length=64)] | None = None
    members: Count | None = None
    gpus: Gpus | None = None
    cpus: Cpus | None = None
    memory_gib: MemoryGib | None = None
    gpu: GpuRequest | None = None
    node_labels: Labels | None = None
    slice: SliceRequest | None = None
    command: Command | None = None
    workdir: Path | None = None
    image: Path | None = None
    env: Variables | None = None
    secrets: Variables | None = None
    ready: ShortText | None = None
    topology: TopologyRequest | None = None
    elastic: ElasticRequest | None = None
    time_limit: Duration | None = None
    start_timeout: Duration | None = "10m"
    stall_timeout: Duration | None = None
    recovery: RecoveryRequest = RecoveryRequest()
    checkpoint: CheckpointRequest = CheckpointRequest()
    preemptible: bool = True
    labels: Labels = field(default_factory=dict)
    after: Annotated[list[AfterRequest], Meta(max_length=256)] = field(default_factory=list)
    not_before: Annotated[datetime, Meta(tz=True)] | None = None
    allow_infeasible: bool = False


class BatchRequest(RequestStruct, frozen=True, kw_only=True):
    """Groups that are taken together or not at all; their order is the order of submission."""

    groups: Annotated[list[GroupRequest], Meta(min_length=1, max_length=MAX_BATCH)]
