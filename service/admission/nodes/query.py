"""A shape in terms of a capacity: for each role the fields to look into, and the sums that must
suffice before looking is worth anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from service.admission.nodes.field import Field
from service.admission.nodes.filters import Filter, filter_of
from service.admission.nodes.topology import Domain, Rung, ladder, lengths_at
from service.admission.world import Pool
from service.domain.resources import CPUS, MEMORY, Resources
from service.domain.shape import RoleShape, Shape, Terms

#: The model of roles that use no GPU. It is no flavor and no quota knows it.
NO_MODEL = ""


class Fields(Protocol):
    """What a query needs of a capacity."""

    @property
    def pools(self) -> Mapping[int, Pool]: ...

    def field(self, filters: Iterable[Filter], level: str | None = None) -> Field: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Of a role in slices: their size, for each of its models the nodes by domain of their level, and how
    long such a domain is, by pool that has the level."""

    size: int
    fields: tuple[Field, ...]
    lengths: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleQuery:
    """Members of one role; `whole` is what all of them ask for. `fields[i]` holds the nodes for
    `models[i]`, by domain of the required level; models in order of preference, (NO_MODEL,) for a
    role without GPUs. A role that names no model takes any: those with small memory first, so that
    large ones stay for who asks for them."""

    position: int
    count: int
    requests: Resources
    whole: Resources
    models: tuple[str, ...]
    fields: tuple[Field, ...]
    slices: Slices | None = None

    def is_sliced_in(self, domain: Domain) -> bool:
        """Whether its slices have to be told apart in this domain: not if all of it lies in one of theirs."""
        return self.slices is not None and len(domain) <= self.slices.lengths.get(domain[0], 0)

    def has_slices_at(self, domain: Domain) -> bool:
        """Whether a domain that is narrower than those of slices lies in one of these."""
        if self.slices is None:
            return True
        length = self.slices.lengths.get(domain[0])
        return length is not None and domain[length - 1] != ""

    def may_seat_all(self) -> bool:
        """False: no domain has a seat for all members, by GPUs and CPUs of each node."""
        return not self.requests.gpus or sum(map(self.most_seats, self.fields)) >= self.count

    def may_seat_all_in(self, domain: Domain) -> bool:
        """As `may_seat_all`, of one domain."""
        return not self.requests.gpus or sum(self.seats(field, domain) for field in self.fields) >= self.count

    def most_seats(self, field: Field) -> int:
        """Of members with GPUs, the most that one domain of the field may seat."""
        return field.rooms.most_seats(self.requests.gpus, cpus_milli=self.requests.cpus_milli)

    def seats(self, field: Field, domain: Domain) -> int:
        """As `most_seats`, of this domain."""
        return field.rooms.seats(self.requests.gpus, domain, cpus_milli=self.requests.cpus_milli)

    def sized(self, count: int) -> RoleQuery:
        return replace(self, count=count, whole=self.requests.times(count))

    def at_level(self, capacity: Fields, level: str) -> RoleQuery:
        """With the same nodes by domain of another level."""
        return replace(self, fields=tuple(capacity.field(field.filters, level) for field in self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A sum that must suffice: `need` on the nodes of `field`, for the roles at `positions`. `role`: the
    first of them, None for all roles together."""

    field: Field
    need: Resources
    positions: frozenset[int]
    role: RoleShape | None

    def suffices(self) -> bool:
        need, field = self.need, self.field
        return (
            (not need.gpus or need.gpus <= field.gpus())
            and (not need.cpus_milli or need.cpus_milli <= field.cpus_milli())
            and (not need.memory_mib or need.memory_mib <= field.memory_mib())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeQuery:
    """`roles` in the order in which they are placed: most GPUs first, then most CPUs, so that
    members without GPUs do not take what the others need. An independent shape asks for one
    member at a time. `fields` are all that decide whether it has a place; `ladder` are levels that it
    would rather be in one domain of. `most` is, by quota resource, the most that one unit would take.
    `has_choice`: some role may choose among models; `is_single`: one member of a gang, and in no slice."""

    shape: Shape
    roles: tuple[RoleQuery, ...]
    total: Resources
    checks: tuple[Check, ...]
    fields: tuple[Field, ...]
    ladder: tuple[Rung, ...]
    models: tuple[str, ...]
    most: Mapping[str, int]
    has_choice: bool
    is_single: bool

    def sized(self, counts: Sequence[int]) -> ShapeQuery:
        """The same gang with so many members of each role."""
        shape = self.shape.of_size(counts)
        wholes = [role.whole() for role in shape.roles]
        roles = tuple(role.sized(shape.roles[role.position].count) for role in self.roles)
        checks = (
            replace(check, need=_sum(wholes[position] for position in check.positions))
            for check in self.checks
        )
        return replace(
            self,
            shape=shape,
            roles=roles,
            total=shape.total(),
            checks=tuple(checks),
            most=_most(shape, roles),
            is_single=_is_single(shape, roles),
        )

    def at_level(self, capacity: Fields, level: str) -> ShapeQuery:
        """With the same nodes by domain of another level."""
        return replace(self, roles=tuple(role.at_level(capacity, level) for role in self.roles))

    def grown(self) -> int:
        return sum(field.grown for field in self.fields)

    def shrunk(self) -> int:
        return sum(field.shrunk for field in self.fields)

    def has_sums(self) -> bool:
        """Whether every sum suffices, on the nodes that labels and models allow."""
        return all(check.suffices() for check in self.checks)


def compile_query(capacity: Fields, shape: Shape) -> ShapeQuery:
    roles = tuple(
        sorted(
            (_role_query(capacity, position, role, shape) for position, role in enumerate(shape.roles)),
            key=lambda role: (
                -role.requests.gpus,
                -role.requests.cpus_milli,
                -role.requests.memory_mib,
                role.position,
            ),
        )
    )
    checks = _checks(capacity, shape)
    fields = {id(field): field for role in roles for field in role.fields}
    fields |= {id(field): field for role in roles if role.slices for field in role.slices.fields}
    fields |= {id(check.field): check.field for check in checks}
    return ShapeQuery(
        shape=shape,
        roles=roles,
        total=shape.total(),
        checks=checks,
        fields=tuple(fields.values()),
        ladder=ladder(capacity.pools, shape.preferred, shape.required) if shape.is_gang else (),
        models=tuple(sorted({model for role in roles for model in role.models if model != NO_MODEL})),
        most=_most(shape, roles),
        has_choice=any(len(role.models) > 1 for role in roles),
        is_single=_is_single(shape, roles),
    )


def _is_single(shape: Shape, roles: Sequence[RoleQuery]) -> bool:
    return shape.is_gang and len(roles) == 1 and roles[0].count == 1 and roles[0].slices is None


def _most(shape: Shape, roles: Iterable[RoleQuery]) -> dict[str, int]:
    total = shape.total()
    most = {CPUS: total.cpus_milli, MEMORY: total.memory_mib}
    for role in roles:
        for model in role.models:
            if model != NO_MODEL:
                most[model] = most.get(model, 0) + role.count * role.requests.gpus
    return most


def _role_query(capacity: Fields, position: int, role: RoleShape, shape: Shape) -> RoleQuery:
    filter_ = filter_of(role, shape.terms)

    def fields(level: str | None) -> tuple[Field, ...]:
        return tuple(
            capacity.field((filter_ if model == NO_MODEL else filter_.for_model(model),), level)
            for model in models
        )

    models = _models_of(capacity, role, filter_=filter_, terms=shape.terms)
    count = role.count if shape.is_gang else 1
    return RoleQuery(
        position=position,
        count=count,
        requests=role.requests,
        whole=role.requests.times(count),
        models=models,
        fields=fields(shape.required),
        slices=None
        if role.slice is None
        else Slices(
            size=role.slice.size,
            fields=fields(role.slice.level),
            lengths=lengths_at(capacity.pools, role.slice.level),
        ),
    )


def _models_of(capacity: Fields, role: RoleShape, *, filter_: Filter, terms: Terms) -> tuple[str, ...]:
    if not filter_.has_gpus:
        return (NO_MODEL,)
    if filter_.models:
        return tuple(dict.fromkeys(terms.models(role) or filter_.models))
    memory: dict[str, int] = {}
    for (model, memory_mib), nodes in capacity.field((filter_,)).kinds.items():
        if nodes and memory_mib >= filter_.min_memory_mib:
            memory[model] = max(memory.get(model, 0), memory_mib)
    return tuple(sorted(memory, key=lambda model: (memory[model], model)))


def _checks(capacity: Fields, shape: Shape) -> tuple[Check, ...]:
    """All roles together, then roles of one filter together."""
    by_filter: dict[Filter, list[int]] = {}
    for position, role in enumerate(shape.roles):
        by_filter.setdefault(filter_of(role, shape.terms), []).append(position)
    whole = Check(
        field=capacity.field(by_filter),
        need=shape.total(),
        positions=frozenset(range(len(shape.roles))),
        role=None,
    )
    if len(by_filter) == 1:
        return (whole,)
    return (
        whole,
        *(
            Check(
                field=capacity.field((filter_,)),
                need=_sum(shape.roles[position].whole() for position in positions),
                positions=frozenset(positions),
                role=shape.roles[positions[0]],
            )
            for filter_, positions in by_filter.items()
        ),
    )


def _sum(amounts: Iterable[Resources]) -> Resources:
    total = Resources()
    for amount in amounts:
        total = total.plus(amount)
    return total
