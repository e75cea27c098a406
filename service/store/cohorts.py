"""Cohorts and their quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from service.domain.queue import Quota
from service.domain.tree import CohortSettings
from service.store.models.configuration import cohort_quotas, cohorts
from service.store.quotas import quota_amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortRecord:
    """A cohort as it is stored."""

    id: int
    settings: CohortSettings
    created_at: datetime

    @property
    def name(self) -> str:
        return self.settings.name


def list_cohorts(conn: Connection) -> tuple[CohortRecord, ...]:
    """Every cohort, by name."""
    said: dict[int, list[Row[*tuple[Any, ...]]]] = {}
    for row in conn.execute(select(cohort_quotas).order_by(cohort_quotas.c.resource)):
        said.setdefault(row.cohort_id, []).append(row)
    above = cohorts.alias("above")
    query = (
        select(cohorts, above.c.name.label("parent"))
        .outerjoin(above, above.c.id == cohorts.c.parent_id)
        .order_by(cohorts.c.name)
    )
    return tuple(_record(row, said.get(row.id, ())) for row in conn.execute(query))


def list_cohort_ids(conn: Connection) -> dict[str, int]:
    """By name."""
    return {row.name: row.id for row in conn.execute(select(cohorts.c.name, cohorts.c.id))}


def add_cohorts(conn: Connection, settings: Sequence[CohortSettings], *, now: datetime) -> dict[str, int]:
    """Add cohorts whose names are free, without parents as yet (see change_cohorts). Returns their ids by
    name."""
    if not settings:
        return {}
    rows = [{"name": each.name, "weight": each.weight, "created_at": now} for each in settings]
    made = conn.execute(insert(cohorts).returning(cohorts.c.id, cohorts.c.name), rows)
    return {row.name: row.id for row in made}


def change_cohorts(conn: Connection, settings: Sequence[CohortSettings], *, ids: Mapping[str, int]) -> None:
    """Replace everything but the name. `ids`: of all cohorts by name."""
    if not settings:
        return
    rows = [
        {
            "cohort_id": ids[each.name],
            "weight": each.weight,
            "parent_id": None if each.parent is None else ids[each.parent],
        }
        for each in settings
    ]
    conn.execute(update(cohorts).where(cohorts.c.id == bindparam("cohort_id")), rows)
    conn.execute(
        delete(cohort_quotas).where(cohort_quotas.c.cohort_id.in_([row["cohort_id"] for row in rows]))
    )
    amounts = [row for each in settings for row in _quota_rows(ids[each.name], each.quota)]
    if amounts:
        conn.execute(insert(cohort_quotas), amounts)


def delete_cohorts(conn: Connection, cohort_ids: Collection[int]) -> None:
    """Of which nothing is a member, but others of them."""
    conn.execute(update(cohorts).where(cohorts.c.id.in_(cohort_ids)).values(parent_id=None))
    conn.execute(delete(cohorts).where(cohorts.c.id.in_(cohort_ids)))


def _quota_rows(cohort_id: int, quota: Quota) -> list[dict[str, Any]]:
    nominal = quota.nominal or {}
    return [
        {
            "cohort_id": cohort_id,
            "resource": resource,
            "nominal": nominal.get(resource),
            "borrowing": quota.borrowing.get(resource),
            "lending": quota.lending.get(resource),
        }
        for resource in sorted({*nominal, *quota.borrowing, *quota.lending})
    ]


def _record(row: Row[*tuple[Any, ...]], said: Sequence[Row[*tuple[Any, ...]]]) -> CohortRecord:
    return CohortRecord(
        id=row.id,
        settings=CohortSettings(
            name=row.name,
            parent=row.parent,
            weight=row.weight,
            quota=Quota(
                nominal=quota_amounts(said, "nominal"),
                borrowing=quota_amounts(said, "borrowing"),
                lending=quota_amounts(said, "lending"),
            ),
        ),
        created_at=row.created_at,
    )
