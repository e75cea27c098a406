"""From the wire to the domain: a GroupRequest becomes a GroupSpec, or says all that is wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from service.api.schemas.group import (
    AfterRequest,
    ElasticRequest,
    GroupRequest,
    RecoveryRequest,
    RequestsRequest,
    RoleRequest,
)
from service.domain.dependency import Dependency
from service.domain.errors import FieldError, InvalidRequest, UnsupportedField
from service.domain.group import Elastic, GroupSpec, OnMemberLoss, Recovery, Role
from service.domain.resources import Resources
from service.domain.shape import Slice
from service.wire.values import cpus_milli_of, memory_mib_of, seconds_of

#: Fields of a role that the short form has at the top level, under their own names.
_OF_A_ROLE = ("gpu", "node_labels", "slice", "command", "workdir", "image", "env", "secrets", "ready")
_OF_REQUESTS = ("gpus", "cpus", "memory_gib")
_YEARS = (1970, 2999)
_LOSSES = frozenset(loss.value for loss in OnMemberLoss)


def read_groups(requests: Sequence[GroupRequest]) -> list[GroupSpec]:
    """All specs of a batch, those next to each other that differ only in their names alike
    (`GroupSpec.is_like`). Errors name the index of the group."""
    specs: list[GroupSpec] = []
    for index, request in enumerate(requests):
        if index and _is_like(request, requests[index - 1]):
            specs.append(specs[-1].named(request.name))
            continue
        try:
            specs.append(read_group(request))
        except InvalidRequest as error:
            errors = [FieldError(f"groups[{index}].{each.field}", each.message) for each in error.errors]
            raise type(error)(error.message, errors=errors) from None
    return specs


def _is_like(request: GroupRequest, other: GroupRequest) -> bool:
    return msgspec.structs.replace(request, name=other.name) == other


def read_group(request: GroupRequest) -> GroupSpec:
    """Raises UnsupportedField or InvalidRequest."""
    if mixed := list(_mixed_forms(request)):
        raise InvalidRequest(mixed[0].message, errors=mixed)
    roles = request.roles or [_short_role(request)]
    if unsupported := list(_unsupported(request, roles)):
        named = ", ".join(sorted({error.field for error in unsupported}))
        raise UnsupportedField(f"Not supported yet: {named}.", errors=unsupported)
    if unnamed := list(_unnamed_programs(request, roles)):
        raise InvalidRequest.of(unnamed)
    return GroupSpec(
        name=request.name,
        queue=request.queue,
        priority=request.priority if isinstance(request.priority, int) else 0,
        priority_class=request.priority if isinstance(request.priority, str) else None,
        scheduling=request.scheduling,
        roles=tuple(_role(role, f"roles[{index}]") for index, role in enumerate(roles)),
        topology_required=request.topology.required if request.topology else None,
        elastic=None if request.elastic is None else _elastic(request.elastic),
        topology_preferred=request.topology.preferred if request.topology else None,
        time_limit_seconds=_seconds(request.time_limit, "time_limit"),
        start_timeout_seconds=_seconds(request.start_timeout, "start_timeout"),
        grace_seconds=seconds_of(request.checkpoint.grace, field="checkpoint.grace"),
        recovery=_recovery(request.recovery),
        labels=request.labels,
        after=tuple(_dependency(each) for each in request.after),
        not_before_at=_not_before(request.not_before),
        is_preemptible=request.preemptible,
        allows_infeasible=request.allow_infeasible,
    )


def short_path(field: str) -> str:
    """What the sender of a short form calls this field."""
    field = re.sub(r"\broles\[0\]\.count$", "members", field)
    return re.sub(r"\broles\[0\]\.(requests\.)?", "", field)


def _mixed_forms(request: GroupRequest) -> Iterator[FieldError]:
    if request.roles is None:
        return
    for name in ("members", *_OF_REQUESTS, *_OF_A_ROLE):
        if getattr(request, name) is not None:
            yield FieldError(name, f"{name} belongs to the short form; with roles it stands in a role")


def _short_role(request: GroupRequest) -> RoleRequest:
    given = {name: value for name in _OF_A_ROLE if (value := getattr(request, name)) is not None}
    requests = RequestsRequest(gpus=request.gpus or 0, cpus=request.cpus, memory_gib=request.memory_gib)
    return RoleRequest(count=request.members or 1, requests=requests, **given)


def _unsupported(request: GroupRequest, roles: Sequence[RoleRequest]) -> Iterator[FieldError]:
    """Fields of features that are not built yet, unless they say nothing."""
    for field in _not_yet(request, roles):
        shown = field if request.roles else short_path(field)
        yield FieldError(shown, f"{shown} is not supported yet; leave it out")


def _not_yet(request: GroupRequest, roles: Sequence[RoleRequest]) -> Iterator[str]:
    if request.stall_timeout is not None:
        yield "stall_timeout"
    if request.recovery.on_member_loss not in _LOSSES:
        yield "recovery.on_member_loss"
    for index, role in enumerate(roles):
        if role.ready != "started":
            yield f"roles[{index}].ready"


def _unnamed_programs(request: GroupRequest, roles: Sequence[RoleRequest]) -> Iterator[FieldError]:
    """No command at all leaves it to the image; a command without its program can only fail."""
    for index, role in enumerate(roles):
        if role.command and not role.command[0].strip():
            field = f"roles[{index}].command[0]"
            yield FieldError(field if request.roles else short_path(field), "The program must be named.")


def _role(role: RoleRequest, path: str) -> Role:
    fallback = role.gpu.fallback_after if role.gpu else 0
    return Role(
        name=role.name,
        count=role.count,
        min_count=role.min_count,
        requests=_resources(role.requests),
        models=tuple(role.gpu.models) if role.gpu else (),
        min_gpu_memory_gib=role.gpu.min_memory_gib if role.gpu else 0,
        fallback_seconds=seconds_of(fallback, field=f"{path}.gpu.fallback_after"),
        node_labels=role.node_labels,
        slice=Slice(level=role.slice.level, size=role.slice.size) if role.slice else None,
        command=tuple(role.command or ()),
        workdir=role.workdir,
        image=role.image,
        env=role.env,
        secrets=role.secrets,
    )


@functools.lru_cache(maxsize=1024)
def _resources(requests: RequestsRequest) -> Resources:
    """A member that does not say takes one CPU and one GiB for each GPU, and at least one."""
    share = max(1, requests.gpus)
    return Resources(
        gpus=requests.gpus,
        cpus_milli=cpus_milli_of(share if requests.cpus is None else requests.cpus),
        memory_mib=memory_mib_of(share if requests.memory_gib is None else requests.memory_gib),
    )


def _dependency(after: AfterRequest) -> Dependency:
    return Dependency(group=after.group, batch_index=after.batch_index, when=after.when)


def _not_before(at: datetime | None) -> datetime | None:
    """In UTC. Refused where a calendar of another zone may have no such year."""
    if at is None:
        return None
    if not _YEARS[0] <= at.year <= _YEARS[1]:
        message = f"Must be in the years {_YEARS[0]} to {_YEARS[1]}."
        raise InvalidRequest.of([FieldError("not_before", message)])
    return at.astimezone(UTC)


@functools.lru_cache(maxsize=16)
def _elastic(elastic: ElasticRequest) -> Elastic:
    return Elastic(
        resize=elastic.resize,
        resumes_from_checkpoint=elastic.resumes_from_checkpoint,
    )


@functools.lru_cache(maxsize=1024)
def _recovery(recovery: RecoveryRequest) -> Recovery:
    return Recovery(
        on_member_loss=OnMemberLoss(recovery.on_member_loss),
        max_restarts=recovery.max_restarts,
        backoff_seconds=seconds_of(recovery.backoff, field="recovery.backoff"),
        seat_timeout_seconds=seconds_of(recovery.seat_timeout, field="recovery.seat_timeout"),
    )


def _seconds(value: str | float | None, field: str) -> int | None:
    return None if value is None else seconds_of(value, field=field)
