"""Places and quota that are kept for others, as a whole class is told, and what concerns one of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from service.admission.plan import Blocker
from service.admission.resident import World
from service.domain.claim import Claim
from service.domain.reasons import Code

#: In a scope, the date of each holder, in their order, and all who have their own places kept, all of them
#: free. No reader sees these.
_DATES, _WHOLE = "dates", "whole"
_NEVER = "-"


def held_for(
    world: World,
    claims: Iterable[Claim],
    *,
    whole: Collection[int] = (),
    need: int | None = None,
    have_key: str | None = None,
    scope: Mapping[str, str] | None = None,
) -> Blocker:
    """`until` in its scope: when the last of the claims is due; without it at least one has no date. `whole`:
    units for which all of their places are kept and free."""
    dates: dict[str, datetime | None] = {}
    for claim in claims:
        name = world.pending[claim.unit_id].public_id
        before = dates.get(name, claim.due_at)
        is_dated = before is not None and claim.due_at is not None
        dates[name] = max(before, claim.due_at) if is_dated else None  # type: ignore[type-var]
    return Blocker(
        code=Code.HELD_FOR_CLAIM,
        need=need,
        have_key=have_key,
        scope={
            **(scope or {}),
            **_until(dates.values()),
            _WHOLE: " ".join(sorted({world.pending[unit_id].public_id for unit_id in whole})),
            _DATES: " ".join(_NEVER if at is None else at.isoformat() for at in dates.values()),
        },
        holders=tuple(dates),
    )


def told_to(blocker: Blocker, *, public_id: str | None, ends_at: datetime | None) -> Blocker | None:
    """What of it keeps one group that waits; `ends_at`: when that would surely be gone, had it been admitted
    in this cycle, None for never. Its own claim is in nobody's way, and whoever is gone by a claim's date may
    use what is kept for that. None if nothing of it concerns the group. `public_id`: None for a group of
    which several rows wait, for what is kept for one of them is kept from the others."""
    if blocker.code is not Code.HELD_FOR_CLAIM:
        return blocker
    if public_id in blocker.scope.get(_WHOLE, "").split():
        return None
    # An earlier release has published one date for all.
    one_for_all = " ".join([blocker.scope.get("until", _NEVER)] * len(blocker.holders))
    texts = blocker.scope.get(_DATES, one_for_all).split()
    dates = {
        holder: None if text == _NEVER else datetime.fromisoformat(text)
        for holder, text in zip(blocker.holders, texts, strict=True)
    }
    kept = {
        holder: at
        for holder, at in dates.items()
        if holder != public_id and not (at is not None and ends_at is not None and ends_at <= at)
    }
    if not kept:
        return None
    scope = {key: value for key, value in blocker.scope.items() if key not in (_DATES, _WHOLE, "until")}
    if ends_at is None:
        scope["time_limit"] = "none"
    return replace(blocker, scope={**scope, **_until(kept.values())}, holders=tuple(kept))


def _until(dates: Iterable[datetime | None]) -> dict[str, str]:
    known = list(dates)
    ends = [at for at in known if at is not None]
    return {"until": max(ends).isoformat(timespec="seconds")} if len(ends) == len(known) and ends else {}
