"""Shapes, stored once and named by their digest: equal shapes are one class for the planner."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, select, text

from service.domain.shape import Shape, Terms
from service.store.models.groups import shapes

#: Fields that shapes had not from the first. They are left out where they say nothing, so that the digest
#: of a shape is what it was.
_LATER = ("sizing",)
#: What a shape has in the planner alone.
_NEVER = ("terms",)

_MISSING = text(
    "INSERT INTO shapes (digest, shape) SELECT * FROM unnest(:digests ::bytea[], :bodies ::jsonb[])"
    " ORDER BY 1 ON CONFLICT (digest) DO NOTHING"
)


def shape_digest(shape: Shape) -> bytes:
    """SHA-256 of the shape's one canonical text."""
    return hashlib.sha256(msgspec.json.encode(_body(shape))).digest()


def ensure_shapes(conn: Connection, wanted: Mapping[bytes, Shape]) -> dict[bytes, int]:
    """Ids of the shapes with these digests; those that are not there yet are added."""
    found = _ids(conn, wanted)
    missing = [digest for digest in wanted if digest not in found]
    if missing:
        bodies = [Jsonb(_body(wanted[digest])) for digest in missing]
        conn.execute(_MISSING, {"digests": missing, "bodies": bodies})
        found |= _ids(conn, missing)
    return found


def load_shapes(conn: Connection, ids: Collection[int]) -> dict[int, Shape]:
    """The shapes with these ids."""
    rows = conn.execute(select(shapes.c.id, shapes.c.shape).where(shapes.c.id.in_(list(ids))))
    return {row.id: msgspec.convert(row.shape, Shape) for row in rows}


def get_shape_on_terms(conn: Connection, *, shape_id: int, queue_id: int) -> Shape:
    """The shape with what the queue allows of its models."""
    row = conn.execute(
        text(
            "SELECT s.shape, q.policy -> 'flavors' AS flavors FROM shapes s, queues q"
            " WHERE s.id = :shape_id AND q.id = :queue_id"
        ),
        {"shape_id": shape_id, "queue_id": queue_id},
    ).one()
    flavors = None if row.flavors is None else tuple(row.flavors)
    return replace(msgspec.convert(row.shape, Shape), terms=Terms(flavors=flavors))


def _body(shape: Shape) -> dict[str, Any]:
    """The shape as it is stored, its fields in their order."""
    body: dict[str, Any] = msgspec.to_builtins(shape)
    for field in _NEVER:
        del body[field]
    for field in _LATER:
        if body[field] is None:
            del body[field]
    for role in body["roles"]:
        if role["slice"] is None:
            del role["slice"]
        if not role["fallback_seconds"]:
            del role["fallback_seconds"]
    return body


def _ids(conn: Connection, digests: Collection[bytes]) -> dict[bytes, int]:
    found = conn.execute(
        text("SELECT digest, id FROM shapes WHERE digest = ANY(:digests)"), {"digests": list(digests)}
    )
    return {bytes(row.digest): row.id for row in found}
