"""Exit codes of `muster`, for scripts."""

from __future__ import annotations

OK = 0
GROUP_FAILED = 1
UNWELL = 1
USAGE = 2
NO_SERVER = 3
NOT_ALLOWED = 4
NOT_FOUND = 5
REFUSED = 6
BROKEN = 7
INTERRUPTED = 130

MEANINGS: dict[int, str] = {
    OK: "done; with --watch: the group succeeded",
    GROUP_FAILED: "--watch: the group failed or was cancelled; health: it is not well",
    USAGE: "the command line is wrong, the file holds no groups, or GROUP may be any of several",
    NO_SERVER: "no server answers, or it cannot reach its stores now",
    NOT_ALLOWED: "no valid key, or its role does not allow this",
    NOT_FOUND: "there is no such group, queue, node or key",
    REFUSED: "the server refuses the request, such as a field of a group, or the state does not allow it",
    BROKEN: "something is broken: the server failed, or a part of the stack did not start",
    INTERRUPTED: "Ctrl-C",
}


def of_status(status: int) -> int:
    """The exit code for an HTTP status that is an error."""
    if status in {401, 403}:
        return NOT_ALLOWED
    if status == 404:
        return NOT_FOUND
    if status in {502, 503, 504}:
        return NO_SERVER
    return REFUSED if status < 500 else BROKEN
