"""The record of one member: a file of JSON lines.

The first line says who it is, where it was put and which processes are its own; it is there before
the member's command is executed (X3). A second line says that it was started; the last one how it
ended. Nothing in it is secret: neither command nor environment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workers.launchers.base import MemberKey, MemberObservation, MemberState
from workers.launchers.local import durable
from workers.launchers.local.layout import Layout
from workers.launchers.local.processes import ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`member` is the process of the command, `supervisor` the one that watches it."""

    key: MemberKey
    node: str
    devices: tuple[int, ...]
    master_port: int
    boot_id: str
    supervisor: ProcessId
    member: ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """No process of the member is left. `exit_code` None: nobody saw how it ended. `is_node_lost`: the
    machine was started anew."""

    ended_at: datetime
    exit_code: int | None = None
    was_told_to_stop: bool = False
    cannot_execute: bool = False
    detail: str | None = None
    is_node_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFile:
    """What the record of a member says so far."""

    record: Record
    is_started: bool
    end: End | None

    def observe(self) -> MemberObservation:
        """Say it in the words of the launcher protocol."""
        record, end = self.record, self.end
        if end is None:
            return MemberObservation(
                key=record.key,
                state=MemberState.READY if self.is_started else MemberState.STARTING,
                node=record.node,
                devices=record.devices,
            )
        return MemberObservation(
            key=record.key,
            node=record.node,
            devices=record.devices,
            state=MemberState.LOST if end.exit_code is None else MemberState.ENDED,
            exit_code=end.exit_code,
            ended_at=end.ended_at,
            was_told_to_stop=end.was_told_to_stop,
            cannot_execute=end.cannot_execute,
            detail=end.detail,
            is_node_lost=end.is_node_lost,
        )


def create_record(layout: Layout, record: Record) -> bool:
    """Write the record durably; False if the member has one already."""
    fields = {
        "key": str(record.key),
        "node": record.node,
        "devices": record.devices,
        "master_port": record.master_port,
        "boot_id": record.boot_id,
        "supervisor": record.supervisor,
        "member": record.member,
    }
    return durable.create_once(layout.record(record.key), f"{json.dumps(fields)}\n")


def add_start(layout: Layout, key: MemberKey, *, started_at: datetime) -> None:
    """Note that the command was executed. Not synced: only this boot cares."""
    line = json.dumps({"started_at": started_at.isoformat()})
    durable.append_line(layout.record(key), line, is_durable=False)


def add_end(layout: Layout, key: MemberKey, *, end: End) -> None:
    """Note durably how the member ended. FileNotFoundError if its record was dropped meanwhile."""
    fields = {
        "ended_at": end.ended_at.isoformat(),
        "exit_code": end.exit_code,
        "was_told_to_stop": end.was_told_to_stop,
        "cannot_execute": end.cannot_execute,
        "detail": end.detail,
        "is_node_lost": end.is_node_lost,
    }
    durable.append_line(layout.record(key), json.dumps(fields))


def read_member(layout: Layout, key: MemberKey) -> MemberFile | None:
    """Read all that the record says; None if there is none. Of several ends the first counts."""
    first, *later = [_parse(line) for line in durable.read_lines(layout.record(key))] or [{}]
    if not first:
        return None
    ends = [fields for fields in later if "ended_at" in fields]
    return MemberFile(
        record=_record_from(key, first),
        is_started=any("started_at" in fields for fields in later),
        end=_end_from(ends[0]) if ends else None,
    )


def _parse(line: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError:  # half-written when the machine crashed: what it told is not known
        return {}
    return fields


def _record_from(key: MemberKey, fields: dict[str, Any]) -> Record:
    return Record(
        key=key,
        node=fields["node"],
        devices=tuple(fields["devices"]),
        master_port=fields["master_port"],
        boot_id=fields["boot_id"],
        supervisor=ProcessId(*fields["supervisor"]),
        member=ProcessId(*fields["member"]),
    )


def _end_from(fields: dict[str, Any]) -> End:
    return End(**fields | {"ended_at": datetime.fromisoformat(fields["ended_at"])})
