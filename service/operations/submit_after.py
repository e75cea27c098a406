"""Groups that are to wait for the end of others: whom they name, and what it means now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection

from service.operations.dependencies import answer_dependents
from service.operations.submission import Draft
from service.store.dependencies import (
    NamedGroup,
    NewDependency,
    find_named,
    insert_dependencies,
    lock_named,
)


def lock_named_groups(conn: Connection, drafts: Sequence[Draft]) -> dict[UUID, NamedGroup]:
    """The groups that these requests name in `after`, by public id: those that there are. Whoever wants to
    end one waits until these requests are written, and then sees who waits for it (W4)."""
    named = {public_id for draft in drafts for public_id in draft.named_groups()}
    if not named:
        return {}
    found = find_named(conn, named)
    # What a request may not see it does not lock either.
    seen = {
        public_id
        for draft in drafts
        for public_id in draft.named_groups() & found.keys()
        if draft.submission.principal.may_see(tenant=found[public_id].tenant, owner=found[public_id].owner)
    }
    there = lock_named(conn, {found[public_id].id for public_id in seen})
    return {public_id: found[public_id] for public_id in seen if found[public_id].id in there}


def add_dependencies(conn: Connection, drafts: Sequence[Draft], *, named: Mapping[UUID, NamedGroup]) -> None:
    """Write what the groups of these requests wait for, and answer those of whom it has ended already."""
    new = list(_dependencies(drafts, named))
    if not new:
        return
    insert_dependencies(conn, new)
    for draft in drafts:
        answer_dependents(conn, {named[each].id for each in draft.named_groups()}, now=draft.submission.now)


def _dependencies(drafts: Sequence[Draft], named: Mapping[UUID, NamedGroup]) -> Iterator[NewDependency]:
    for draft in drafts:
        ids = {group.public_id: group.id for group in draft.groups}
        for group in draft.groups:
            for each in group.spec.after:
                assert each.group is not None
                on = ids.get(each.group) or named[each.group].id
                yield NewDependency(group_id=group.id, on_group_id=on, when=each.when)
