"""The last lines of what failed, free of secrets: they go into the reason that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from cryptography.fernet import InvalidToken

from service.domain.masking import mask_text
from service.operations.dispatch import PoolFence
from service.operations.member_logs import tail_log
from service.operations.secret_box import SecretBox
from service.settings import Settings
from service.store.attempts import LiveAttempt
from service.store.specs import load_specs
from workers.launchers.base import MemberKey
from workers.reconcile import printable

_log = structlog.get_logger(__name__)

_LINES = 10
_LONGEST = 2000


def read_tails(
    fence: PoolFence, failed: Sequence[tuple[LiveAttempt, int]], *, box: SecretBox, settings: Settings
) -> dict[int, str]:
    """The end of the log of each of these (attempt, member), by unit, for all of them at once. A unit
    without lines has none, and so has one whose secrets cannot be opened, for they could not be hidden.
    """
    raw = {
        attempt: printable("\n".join(lines)) or ""
        for attempt, member in failed
        if (lines := tail_log(settings.data, MemberKey(*attempt.key, member), lines=_LINES))
    }
    hidden = _hidden(fence, {attempt.group_id for attempt in raw}, box=box) if raw else {}
    return {
        attempt.unit_id: mask_text(text, hidden[attempt.group_id])[-_LONGEST:]
        for attempt, text in raw.items()
        if attempt.group_id in hidden
    }


def _hidden(fence: PoolFence, group_ids: set[int], *, box: SecretBox) -> Mapping[int, list[str]]:
    with fence.conn.begin():
        specs = load_specs(fence.conn, group_ids)
    hidden: dict[int, list[str]] = {}
    for group_id, spec in specs.items():
        try:
            hidden[group_id] = [value for role in box.open(spec.sealed) for value in role.values()]
        except InvalidToken:
            _log.warning("log_tail_left_out", group_id=group_id, reason="secrets sealed with another key")
    return hidden
