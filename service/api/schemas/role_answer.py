"""A role as it is answered: variables with sensitive names are masked, of secrets only names."""

from __future__ import annotations

from service.domain.group import Role
from service.domain.masking import MASK
from service.store.specs import StoredSpec
from service.wire.values import AnswerStruct, number_of


class RequestsAnswer(AnswerStruct, frozen=True, kw_only=True):
    gpus: int
    cpus: float
    memory_gib: float


class GpuAnswer(AnswerStruct, frozen=True, kw_only=True):
    models: list[str]
    min_memory_gib: int
    fallback_after_seconds: int


class SliceAnswer(AnswerStruct, frozen=True, kw_only=True):
    level: str
    size: int


class RoleAnswer(AnswerStruct, frozen=True, kw_only=True):
    name: str
    count: int
    min_count: int
    requests: RequestsAnswer
    gpu: GpuAnswer
    node_labels: dict[str, str]
    slice: SliceAnswer | None
    command: list[str]
    workdir: str | None
    image: str | None
    env: dict[str, str]
    #: Names only.
    secrets: list[str]
    ready: str = "started"


def role_answers(stored: StoredSpec) -> list[RoleAnswer]:
    hidden = zip(stored.spec.roles, stored.masked_names, stored.secret_names, strict=True)
    return [_role_answer(role, masked=masked, secrets=secrets) for role, masked, secrets in hidden]


def _role_answer(role: Role, *, masked: tuple[str, ...], secrets: tuple[str, ...]) -> RoleAnswer:
    return RoleAnswer(
        name=role.name,
        count=role.count,
        min_count=role.count if role.min_count is None else role.min_count,
        requests=RequestsAnswer(
            gpus=role.requests.gpus,
            cpus=number_of(role.requests.cpus_milli, 1000),
            memory_gib=number_of(role.requests.memory_mib, 1024),
        ),
        gpu=GpuAnswer(
            models=list(role.models),
            min_memory_gib=role.min_gpu_memory_gib,
            fallback_after_seconds=role.fallback_seconds,
        ),
        node_labels=dict(role.node_labels),
        slice=SliceAnswer(level=role.slice.level, size=role.slice.size) if role.slice else None,
        command=list(role.command),
        workdir=role.workdir,
        image=role.image,
        env={**role.env, **dict.fromkeys(masked, MASK)},
        secrets=list(secrets),
    )
