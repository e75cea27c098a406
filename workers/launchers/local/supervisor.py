"""The supervisor of one member: a forked process that outlives spawner and dispatcher.

It alone writes how its member ended, after the last process of the member is gone. It runs on what the
spawner had imported, so that starting one costs a fork and no interpreter.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from service.clock import Clock
from service.points import reach
from workers.launchers.base import Outcome
from workers.launchers.local import bell, records, tombstones
from workers.launchers.local.gate import GatedMember
from workers.launchers.local.keeper import Alarm, Keeper
from workers.launchers.local.layout import Layout
from workers.launchers.local.log_pump import LogPump
from workers.launchers.local.orders import Report, StartOrder, write_report
from workers.launchers.local.prctl import become_subreaper
from workers.launchers.local.processes import ProcessId, find_process
from workers.launchers.local.records import End, Record

_TRY_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all supervisors of one spawner share. `bells` is the folder where launchers listen."""

    layout: Layout
    bells: Path
    boot_id: str
    clock: Clock


def supervise(order: StartOrder, around: Surroundings, *, reports: int) -> NoReturn:
    """Start one member and stay until nothing of it is left. Never returns to the spawner's code."""
    code = 1
    try:
        os.setsid()
        become_subreaper()
        _Supervisor(order, around, reports=reports).run(Alarm())
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


class _Supervisor:
    def __init__(self, order: StartOrder, around: Surroundings, *, reports: int) -> None:
        self._order = order
        self._key = order.key
        self._layout = around.layout
        self._around = around
        self._reports = reports

    def run(self, alarm: Alarm) -> None:
        """Start the member and keep it to its end, or report why it is not started."""
        source, output = os.pipe()
        try:
            pump = LogPump(
                source,
                Path(self._order.log),
                limit_bytes=self._order.log_limit_bytes,
                hidden=self._order.hidden,
            )
            member = GatedMember(self._order, output=output)
            os.close(output)
            refusal = self._ask_admission(member)
        except (OSError, ValueError) as error:  # ValueError: a secret that no encoding has
            # The gate is shut: the member's process ends with this one, and nothing was executed.
            return self._report(Outcome.REFUSED, f"its supervisor could not start it: {error}")
        if refusal:
            member.abandon()
            return self._report(*refusal)
        if failure := member.open():
            return self._report_failure(failure, member.pid)
        reach("supervisor.command-executed")
        note = self._note_start()
        reach("supervisor.start-noted")
        self._report(Outcome.STARTED)
        reach("supervisor.start-reported")
        # Also for a launcher that came after the one that wanted this start.
        bell.ring(self._around.bells, str(self._key))
        return self._tell_end(self._keep(member.pid, pump=pump, alarm=alarm, source=source), note)

    def _ask_admission(self, member: GatedMember) -> tuple[Outcome | None, str | None] | None:
        """Write the record, then look for the tombstone, in this order (X3). None: it may execute."""
        reach("supervisor.member-forked")
        if not records.create_record(self._layout, self._record(member.pid)):
            return None, None
        reach("supervisor.member-recorded")
        if tombstones.is_closed(self._layout, self._key.of):
            self._layout.record(self._key).unlink(missing_ok=True)
            reach("supervisor.record-taken-back")
            return Outcome.REFUSED, "this generation was closed"
        reach("supervisor.no-tombstone-seen")
        return None

    def _record(self, member_pid: int) -> Record:
        return Record(
            key=self._key,
            node=self._order.node,
            devices=self._order.devices,
            master_port=self._order.master_port,
            boot_id=self._around.boot_id,
            supervisor=_identify(os.getpid()),
            member=_identify(member_pid),
        )

    def _note_start(self) -> str | None:
        try:
            records.add_start(self._layout, self._key, started_at=self._around.clock.now())
        except OSError as error:
            return f"its start could not be noted: {error.strerror}"
        return None

    def _keep(self, pid: int, *, pump: LogPump, alarm: Alarm, source: int) -> End:
        stop_order = self._layout.stop_order(self._key)
        keeper = Keeper(
            pid,
            str(self._key),
            owner=self._layout.owner,
            pump=pump,
            stop_order=stop_order,
            clock=self._around.clock,
        )
        end = keeper.keep(alarm, source)
        reach("supervisor.end-seen")
        # Who closes a generation kills its processes in no order: a shell may see its program killed and
        # still end with 0, which is no success.
        was_told = end.was_told_to_stop or tombstones.is_closed(self._layout, self._key.of)
        return replace(end, was_told_to_stop=was_told)

    def _report_failure(self, failure: str, pid: int) -> None:
        """The command could not be executed: that is an end, too."""
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        now = self._around.clock.now()
        self._tell_end(End(ended_at=now, exit_code=code, cannot_execute=True, detail=failure))
        self._report(Outcome.CANNOT_EXECUTE, failure)

    def _tell_end(self, end: End, note: str | None = None) -> None:
        """Write the end, however long the disk is full: until then the devices count as busy."""
        if note:
            end = replace(end, detail="; ".join(filter(None, (end.detail, note))))
        while True:
            try:
                records.add_end(self._layout, self._key, end=end)
                reach("supervisor.end-written")
                break
            except FileNotFoundError:  # closed and forgotten meanwhile
                return
            except OSError:
                time.sleep(_TRY_AGAIN_SECONDS)
        bell.ring(self._around.bells, str(self._key))

    def _report(self, outcome: Outcome | None, message: str | None = None) -> None:
        write_report(self._reports, Report(self._key, outcome, message))
        os.close(self._reports)


def _identify(pid: int) -> ProcessId:
    found = find_process(pid)
    if found is None:
        raise ProcessLookupError(f"process {pid} ended before it was recorded")
    return found.id
