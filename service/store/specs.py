"""Specs: what the owner wrote, in a cold table. What must not be shown is sealed, apart from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, text

from service.domain.group import GroupSpec, Role
from service.domain.masking import split_env
from service.store.arrays import number_array
from service.store.pipe import Pipe, compact, one_trip

#: How `spec_body` begins: the name is the first that a spec says.
_BEFORE_NAME = b'{"spec":{"name":'

#: Variables of each role that must not be shown, by the position of the role.
Hidden = tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpec:
    """A group's spec as it lies in the database. The roles of `spec` have no secrets and no
    variables whose names look sensitive; `secret_names` and `masked_names` name those of each
    role; their values are in `sealed`, None once the group has ended (or if it has none)."""

    spec: GroupSpec
    secret_names: tuple[tuple[str, ...], ...]
    masked_names: tuple[tuple[str, ...], ...]
    sealed: bytes | None


def hidden_of(spec: GroupSpec) -> Hidden:
    """What has to be sealed: declared secrets, and variables with sensitive names."""
    if not _has_variables(spec):
        return ()
    return tuple({**split_env(role.env)[1], **role.secrets} for role in spec.roles)


def _has_variables(spec: GroupSpec) -> bool:
    for role in spec.roles:  # noqa: SIM110 (a generator takes twice as long, and this is asked of each group)
        if role.env or role.secrets:
            return True
    return False


def spec_body(spec: GroupSpec) -> bytes:
    """The JSON of a spec, without anything that is hidden."""
    stored = stored_spec(spec, None)
    return msgspec.json.encode(
        {"spec": stored.spec, "secrets": stored.secret_names, "masked": stored.masked_names}
    )


def spec_bodies(specs: Iterable[GroupSpec]) -> Iterator[bytes]:
    """`spec_body` of each; of those that are alike everything but the name is written once."""
    before, rest = None, b""
    for spec in specs:
        if before is None or not spec.is_like(before):
            rest = spec_body(spec.named("")).removeprefix(_BEFORE_NAME + b'""')
        before = spec
        yield _BEFORE_NAME + msgspec.json.encode(spec.name) + rest


def stored_spec(spec: GroupSpec, sealed: bytes | None) -> StoredSpec:
    """The spec as it is found in the database once it is there."""
    if not _has_variables(spec):
        nothing = ((),) * len(spec.roles)
        return StoredSpec(spec=spec, secret_names=nothing, masked_names=nothing, sealed=sealed)
    return StoredSpec(
        spec=replace(spec, roles=tuple(_shown(role) for role in spec.roles)),
        secret_names=tuple(tuple(sorted(role.secrets)) for role in spec.roles),
        masked_names=tuple(tuple(sorted(split_env(role.env)[1])) for role in spec.roles),
        sealed=sealed,
    )


def load_specs(conn: Connection, group_ids: Collection[int]) -> dict[int, StoredSpec]:
    """The specs of these groups."""
    rows = conn.execute(
        text(
            "SELECT group_id, CAST(spec AS text) AS spec, secrets FROM group_specs"
            " WHERE group_id = ANY(:group_ids)"
        ),
        {"group_ids": list(group_ids)},
    )
    return {row.group_id: decode_spec(row.spec, row.secrets) for row in rows}


def erase_secrets(conn: Connection, group_ids: Collection[int]) -> None:
    """Forget the sealed values of those of these groups of which every unit has ended."""
    with one_trip(conn) as pipe:
        send_erasure(pipe, group_ids)


def send_erasure(pipe: Pipe, group_ids: Collection[int]) -> None:
    """`erase_secrets` as part of a trip."""
    pipe.run(_ERASE, number_array(sorted(group_ids)))


def decode_spec(stored: str, sealed: bytes | None) -> StoredSpec:
    """A spec from the text of its JSON."""
    body = msgspec.json.decode(stored, type=_Body)
    return StoredSpec(spec=body.spec, secret_names=body.secrets, masked_names=body.masked, sealed=sealed)


class _Body(msgspec.Struct):
    """What `spec_body` makes."""

    spec: GroupSpec
    secrets: tuple[tuple[str, ...], ...]
    masked: tuple[tuple[str, ...], ...]


def _shown(role: Role) -> Role:
    return replace(role, env=split_env(role.env)[0], secrets={})


_ERASE = compact("""
    UPDATE group_specs SET secrets = NULL WHERE group_id = ANY(CAST($1 AS bigint[])) AND secrets IS NOT NULL
      AND NOT EXISTS (SELECT FROM units u WHERE u.group_id = group_specs.group_id AND u.ended_at IS NULL)
""")
