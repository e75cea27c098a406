"""What a group must keep to. Every broken rule is listed, each with the path of its field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from service.domain.errors import FieldError
from service.domain.group import GroupSpec, Role
from service.domain.shape import Scheduling, fallback_steps
from service.domain.unit import MAX_MEMBERS

#: A gang is placed and written as one. Independent members are bounded by their index.
MAX_GANG_MEMBERS = 16_384

#: Instants of one group's waiting at which another model is considered; after so many seconds all of them
#: are, at the latest.
MAX_FALLBACKS = 7
MAX_FALLBACK_SECONDS = 366 * 86_400

#: Names of variables that members get from Muster, which nobody else may give them.
RESERVED_PREFIX = "MUSTER_"
RESERVED_NAMES = frozenset(
    {
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    }
)


def broken_rules(spec: GroupSpec) -> tuple[FieldError, ...]:
    """Every rule of one group that `spec` breaks, whatever the cluster looks like."""
    return (
        *_size_rules(spec),
        *_time_rules(spec),
        *_after_rules(spec),
        *_role_rules(spec),
        *_elastic_rules(spec),
        *_fallback_rules(spec),
        *_independent_rules(spec),
    )


def broken_placement_rules(spec: GroupSpec, pools: Collection[Sequence[str]]) -> tuple[FieldError, ...]:
    """Rules that need the pools: the topology levels of each, outermost first; empty if there is no pool
    yet, which refuses nothing."""
    known = {level for pool in pools for level in pool}
    if not known:
        return ()
    asked = {
        "topology.required": spec.topology_required,
        "topology.preferred": spec.topology_preferred,
        **{
            f"roles[{position}].slice.level": role.slice.level
            for position, role in enumerate(spec.roles)
            if role.slice is not None
        },
    }
    unknown = {field: level for field, level in asked.items() if level is not None and level not in known}
    named = ", ".join(sorted(known))
    errors = tuple(
        FieldError(field, f"no pool that the queue may use has a topology level {level!r}; there is: {named}")
        for field, level in unknown.items()
    )
    return errors or tuple(_order_of_levels(spec, pools))


def _order_of_levels(spec: GroupSpec, pools: Collection[Sequence[str]]) -> Iterator[FieldError]:
    """A preferred level that is wider than the required one says nothing."""
    required, preferred = spec.topology_required, spec.topology_preferred
    if required is None or preferred is None:
        return
    both = [levels for levels in pools if required in levels and preferred in levels]
    if not any(levels.index(preferred) >= levels.index(required) for levels in both):
        yield FieldError(
            "topology.preferred",
            f"{preferred!r} is wider than the required {required!r}"
            if both
            else f"no pool that the queue may use has both {preferred!r} and the required {required!r}",
        )


def _size_rules(spec: GroupSpec) -> Iterator[FieldError]:
    bound = MAX_GANG_MEMBERS if spec.scheduling is Scheduling.GANG else MAX_MEMBERS
    if spec.member_count > bound:
        yield FieldError(
            "roles[0].count",
            f"the group has {spec.member_count} members; {bound} is the most that it may have",
        )


def _time_rules(spec: GroupSpec) -> Iterator[FieldError]:
    for field, seconds in (
        ("time_limit", spec.time_limit_seconds),
        ("start_timeout", spec.start_timeout_seconds),
    ):
        if seconds == 0:
            yield FieldError(field, f"{field} must be at least one second, or null for none")


def _after_rules(spec: GroupSpec) -> Iterator[FieldError]:
    seen = set()
    for position, each in enumerate(spec.after):
        if (each.group is None) is (each.batch_index is None):
            yield FieldError(
                f"after[{position}]", "names a group, or an earlier one of the batch by its batch_index"
            )
        elif (name := (each.group, each.batch_index)) in seen:
            yield FieldError(f"after[{position}]", "names the same group as an entry before it")
        else:
            seen.add(name)


def _role_rules(spec: GroupSpec) -> Iterator[FieldError]:
    names = Counter(role.name for role in spec.roles) if len(spec.roles) > 1 else {}
    for position, role in enumerate(spec.roles):
        path = f"roles[{position}]"
        if names.get(role.name, 1) > 1:
            yield FieldError(f"{path}.name", f"two roles are named {role.name!r}")
        yield from _count_rules(role, path, is_elastic=spec.elastic is not None)
        yield from _slice_rules(role, path)
        yield from _gpu_rules(role, path)
        yield from _workdir_rules(role, path)
        yield from _variable_rules(role, path)


def _count_rules(role: Role, path: str, *, is_elastic: bool) -> Iterator[FieldError]:
    if role.min_count is None:
        return
    if role.min_count > role.count:
        yield FieldError(
            f"{path}.min_count", f"min_count ({role.min_count}) may not be above count ({role.count})"
        )
    elif role.min_count < role.count and not is_elastic:
        yield FieldError(
            f"{path}.min_count",
            f"min_count ({role.min_count}) below count ({role.count}) is for applications that can run with "
            "fewer members: say in `elastic` what yours can do",
        )


def _elastic_rules(spec: GroupSpec) -> Iterator[FieldError]:
    if spec.elastic is None or spec.scheduling is Scheduling.INDEPENDENT:
        return
    if all(role.min_count in (None, role.count) for role in spec.roles):
        yield FieldError("elastic", "no role has a min_count below its count, so there is no other size")


def _slice_rules(role: Role, path: str) -> Iterator[FieldError]:
    if role.slice is None:
        return
    size = role.slice.size
    if role.count % size:
        yield FieldError(f"{path}.slice.size", f"count ({role.count}) is not a multiple of size ({size})")
    if role.min_count is not None and role.min_count < role.count:
        yield FieldError(f"{path}.slice", "a role in slices has one size: min_count is its count")


def _gpu_rules(role: Role, path: str) -> Iterator[FieldError]:
    if role.requests.gpus == 0 and (role.models or role.min_gpu_memory_gib):
        yield FieldError(f"{path}.gpu", "a member that asks for no GPU may not choose one")


def _fallback_rules(spec: GroupSpec) -> Iterator[FieldError]:
    waiting = {position: role for position, role in enumerate(spec.roles) if role.fallback_seconds}
    for position, role in waiting.items():
        field, others = f"roles[{position}].gpu.fallback_after", len(set(role.models)) - 1
        if others < 1:
            yield FieldError(field, "needs at least two `models`, of which the first is preferred")
        elif role.fallback_seconds * others > MAX_FALLBACK_SECONDS:
            yield FieldError(field, "the last model would be considered only after more than a year")
    if waiting and len(fallback_steps(spec.shape())) > MAX_FALLBACKS:
        field = f"roles[{min(waiting)}].gpu.fallback_after"
        yield FieldError(field, f"the group would come to other models more than {MAX_FALLBACKS} times")


def _workdir_rules(role: Role, path: str) -> Iterator[FieldError]:
    """Relative to what would be another question on each node."""
    if role.workdir is not None and not role.workdir.startswith("/"):
        yield FieldError(f"{path}.workdir", "must be an absolute path, such as /data/run1")


def _variable_rules(role: Role, path: str) -> Iterator[FieldError]:
    for kind, names in (("env", role.env), ("secrets", role.secrets)):
        for name in names:
            if name.startswith(RESERVED_PREFIX):
                yield FieldError(
                    f"{path}.{kind}.{name}", f"names that begin with {RESERVED_PREFIX} are taken"
                )
            elif name in RESERVED_NAMES:
                yield FieldError(f"{path}.{kind}.{name}", "each member gets this variable from Muster")
    for name in role.env.keys() & role.secrets.keys():
        yield FieldError(f"{path}.secrets.{name}", "the variable is also in env")


def _independent_rules(spec: GroupSpec) -> Iterator[FieldError]:
    if spec.scheduling is not Scheduling.INDEPENDENT:
        return
    if len(spec.roles) > 1:
        yield FieldError("roles", "an independent group has one role")
    if spec.elastic is not None:
        yield FieldError("elastic", "members of an independent group come and go one by one")
    for level, name in ((spec.topology_required, "required"), (spec.topology_preferred, "preferred")):
        if level is not None:
            yield FieldError(f"topology.{name}", "members of an independent group are placed one by one")
    for position, role in enumerate(spec.roles):
        if role.slice is not None:
            yield FieldError(
                f"roles[{position}].slice", "members of an independent group are placed one by one"
            )
        if role.min_count is not None:
            yield FieldError(
                f"roles[{position}].min_count", "members of an independent group do not wait for each other"
            )
