"""Named points between two steps where a test can freeze a process, to make an interleaving happen."""

from __future__ import annotations

import os
import signal

#: The variable that names the point at which to freeze. Passed on to supervisors, never to members.
VARIABLE = "MUSTER_FREEZE_AT"

FORKED = "supervisor-forked"
RECORDED = "supervisor-recorded"
ADMITTED = "supervisor-saw-no-tombstone"
ENDED = "supervisor-saw-the-end"


def reach(name: str) -> None:
    """Stop this process here if a test asks for it."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGSTOP)
