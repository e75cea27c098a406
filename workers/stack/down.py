"""Stop a stack from elsewhere, or what a killed one left; and end the members that it left running."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workers.embedded.record import end_leftover
from workers.stack.lock import DataLock, find_owner, owner_folder
from workers.stack.members import end_members
from workers.stack.options import StackOptions
from workers.stack.parts import Parts
from workers.stack.places import require_own

#: A stack gives each of its parts some seconds; after that it is killed, and its parts are ended here.
_STOP_SECONDS = 90.0


class Found(StrEnum):
    """What there was to stop."""

    RUNNING = "running"
    LEFTOVERS = "leftovers"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """`pid` of the stack, if one was running. `members` that ran and were ended, if that was asked for,
    and how many of them are still there."""

    found: Found
    pid: int | None = None
    members: int = 0
    survivors: int = 0


def stop_stack(options: StackOptions, *, member_grace_seconds: float | None = None) -> Stopped:
    """Stop the stack on `options.data` and return when nothing of it runs.

    Members live on, unless they are given a grace, after which the last one is gone. Raises
    DataFolderUnusable if the folder is another user's, AlreadyRunning if another stack is started at the
    same time.
    """
    if not options.data.is_dir():
        return Stopped(found=Found.NOTHING)
    require_own(options.data)
    owner = find_owner(options.records)
    if owner is not None:
        end_leftover(owner_folder(options.records), grace_seconds=_STOP_SECONDS)
    # One that was killed, before or just now, leaves its parts.
    lock = DataLock(options.data, options.records)
    lock.take()
    try:
        has_ended = [part.end_leftover() for stage in Parts(options).stop_order for part in stage]
        members, survivors = 0, 0
        if member_grace_seconds is not None:
            members, survivors = end_members(options.data, grace_seconds=member_grace_seconds)
    finally:
        lock.release()
    found = Found.RUNNING if owner else Found.LEFTOVERS if any(has_ended) else Found.NOTHING
    return Stopped(found=found, pid=owner.pid if owner else None, members=members, survivors=survivors)
