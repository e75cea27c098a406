"""Reasons in plain sentences, with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from service.domain.reasons import Code

#: So many holders are named.
_NAMED_HOLDERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a sentence is made of; see `Reason`."""

    need: int | None = None
    have: int | None = None
    limit: int | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    holders: Sequence[str] = ()

    @property
    def resource(self) -> str:
        return self.scope.get("resource", "gpus")

    def amount(self, value: int | None) -> str:
        return amount(self.resource, value or 0)

    def kind(self) -> str:
        """` of H100-80GB`, or nothing where any model will do."""
        models = self.scope.get("models") or self.scope.get("flavor")
        memory = self.scope.get("min_memory_gib")
        text = f" of {models}" if models and self.resource == "gpus" else ""
        return f"{text} with at least {memory} GiB" if memory and self.resource == "gpus" else text

    def nodes(self) -> str:
        """The nodes on which an amount was counted."""
        count = self.scope.get("nodes")
        nodes = "nodes" if count is None else "node" if count == "1" else "nodes"
        number = "" if count is None else f"{count} "
        labels = self.scope.get("labels")
        if labels:
            return f"the {number}{nodes} with {labels}"
        return f"the {number}{nodes} that it may use"

    def who(self) -> str:
        role = self.scope.get("role")
        return f"the role {role} needs" if role else "needs"


def message(
    code: Code,
    *,
    need: int | None = None,
    have: int | None = None,
    limit: int | None = None,
    scope: Mapping[str, str] | None = None,
    holders: Sequence[str] = (),
) -> str:
    """One sentence for a reason, without a full stop."""
    facts = Facts(need=need, have=have, limit=limit, scope=scope or {}, holders=holders)
    return _SENTENCES[code](facts) + _fallback(facts)


def _fallback(facts: Facts) -> str:
    """What a group rather waits for, and until when it does."""
    if "fallback" not in facts.scope:
        return ""
    awaited, at = facts.scope.get("awaited", ""), facts.scope.get("fallback_at", "")
    return f"; it waits for {awaited} alone until {at}, from then on {facts.scope['fallback']} will do, too"


def amount(resource: str, value: int) -> str:
    """`5 GPUs`, `1.5 CPUs`, `64 GiB`: `value` in GPUs, thousandths of a CPU, or MiB."""
    if resource == "cpus":
        return f"{value / 1000:g} CPU{'' if value == 1000 else 's'}"
    if resource == "memory":
        return f"{value / 1024:g} GiB of memory"
    return f"{value} GPU{'' if value == 1 else 's'}"


def _verb(value: int | None, resource: str) -> str:
    return "is" if resource == "memory" or value in (1, 1000) else "are"


def _giving_way(facts: Facts) -> str:
    if facts.scope.get("of") == "dry_run":
        return f"{_groups(facts.need or 0)} would have to make room for it"
    return "the groups that make room for it are still stopping"


def _groups(count: int) -> str:
    return f"{count} group{'' if count == 1 else 's'}"


def unended_groups(count: int) -> str:
    """`3 groups that have not ended`."""
    return f"{_groups(count)} that {'has' if count == 1 else 'have'} not ended"


def _insufficient(facts: Facts) -> str:
    have = facts.have or 0
    return (
        f"{facts.who()} {facts.amount(facts.need)}{facts.kind()}, {facts.amount(have)} "
        f"{_verb(have, facts.resource)} free on {facts.nodes()}"
    )


def _quota(facts: Facts) -> str:
    what = facts.scope.get("flavor") or facts.scope.get("resource", "GPUs")
    queue = facts.scope.get("queue", "")
    if facts.scope.get("of") == "nominal":
        return (
            f"needs {facts.amount(facts.need)} of {what}, queue {queue} holds {facts.amount(facts.have)} "
            f"and has {facts.amount(facts.limit)} of its own; what may not be preempted borrows nothing"
        )
    if facts.limit == 0 and not _whose(facts):
        return f"needs {facts.amount(facts.need)} of {what}, and queue {queue} has a quota of 0 for it"
    of_it = f" of {what}" if facts.resource == "gpus" else ""
    whose = _whose(facts)
    if whose:
        return (
            f"needs {facts.amount(facts.need)}{of_it}, {whose} holds {facts.amount(facts.have)} "
            f"of the {facts.amount(facts.limit)} that one may hold in queue {queue}"
        )
    return (
        f"needs {facts.amount(facts.need)}{of_it}, queue {queue} holds {facts.amount(facts.have)} "
        f"of the {facts.amount(facts.limit)} that it may hold"
    )


def _whose(facts: Facts) -> str:
    """Whose limit it is, if not that of the whole queue."""
    user = facts.scope.get("user")
    return f"user {user}" if user else "the group" if "group" in facts.scope else ""


def _borrowing(facts: Facts) -> str:
    """What the queue, or a cohort above it, may take from its parent."""
    queue, cohort = facts.scope.get("queue", ""), facts.scope.get("cohort", "")
    have, limit = facts.amount(facts.have), facts.amount(facts.limit)
    needs = f"needs {facts.amount(facts.need)}{facts.kind()}, queue {queue} may take {have} more"
    if facts.scope.get("bound") == "cohort":
        return f"{needs}: with what it borrows, cohort {cohort} may hold {limit}"
    return f"{needs}: with what it borrows from cohort {cohort} it may hold {limit}"


def _lending(facts: Facts) -> str:
    have, limit = facts.amount(facts.have), facts.amount(facts.limit)
    return (
        f"needs {facts.amount(facts.need)}{facts.kind()}, cohort {facts.scope.get('cohort', '')} has {have} "
        f"of its {limit} left for queue {facts.scope.get('queue', '')}"
    )


def _fragmented(facts: Facts) -> str:
    per_member = facts.scope.get("per_member")
    if per_member == str(facts.need):
        each = " on one node"
    else:
        each = f", {facts.amount(int(per_member))} for each member on one node" if per_member else ""
    return (
        f"{facts.who()} {facts.amount(facts.need)}{facts.kind()}{each}: {facts.amount(facts.have)} "
        f"{_verb(facts.have, facts.resource)} free on {facts.nodes()}, but scattered"
    )


def _slices(facts: Facts) -> str:
    """Of a role in slices."""
    need, have, within = facts.need or 0, facts.have or 0, facts.scope.get("within")
    slices = f"{need} slice{'' if need == 1 else 's'} of {facts.scope['slice']} members"
    room = f"{have} {'has' if have == 1 else 'have'} room{f' in one {within}' if within else ''}"
    return f"{facts.who()} {slices}, each within one {facts.scope.get('level', 'domain')}: {room}"


def _topology(facts: Facts) -> str:
    if "slice" in facts.scope:
        return _slices(facts)
    level = facts.scope.get("level", "domain")
    best = f"the best {level} has {facts.amount(facts.have)} free"
    if (facts.have or 0) >= (facts.need or 0):
        best += ", but not so that each member finds its own"
    return f"{facts.who()} {facts.amount(facts.need)}{facts.kind()} within one {level}, {best}"


def _no_flavor(facts: Facts) -> str:
    role = f" for the role {facts.scope['role']}" if "role" in facts.scope else ""
    models, labels = facts.scope.get("models"), facts.scope.get("labels")
    memory = facts.scope.get("min_memory_gib")
    wanted = [f"GPUs of {models}"] if models else []
    wanted += [f"GPU memory of at least {memory} GiB"] if memory else []
    wanted += [labels] if labels else []
    lacks = f"has {' and '.join(wanted) or 'GPUs'}{role}"
    queue = facts.scope.get("queue")
    if queue is None:
        return f"no node {lacks}"
    flavors, pools = facts.scope.get("flavors"), facts.scope.get("pools")
    allowed = [f"GPUs of {flavors}"] if flavors else []
    allowed += [f"pools {pools}"] if pools else []
    return f"queue {queue} may use only {' in '.join(allowed) or 'nothing'}, and no such node {lacks}"


def _unavailable(facts: Facts) -> str:
    if facts.need is None:
        return "no node is registered"
    if facts.scope.get("nodes") == "0":
        who = f"the role {facts.scope['role']}" if "role" in facts.scope else "it"
        return f"all nodes that {who} may use are down or cordoned ({facts.scope.get('unavailable', '')})"
    return (
        f"nodes that could hold it are down or cordoned ({facts.scope.get('unavailable', '')}): "
        f"{facts.amount(facts.have)} there"
    )


def _unhealthy(facts: Facts) -> str:
    verb = _verb(facts.have, "gpus")
    return f"{facts.amount(facts.have)}{facts.kind()} that it could use {verb} unhealthy or lost"


def _never(facts: Facts) -> str:
    if "slice" in facts.scope:
        return f"{_slices(facts)}, even when all nodes are idle"
    if "queue" in facts.scope:
        of_it = f" of {facts.scope['flavor']}" if "flavor" in facts.scope else ""
        return f"needs {facts.amount(facts.need)}, and {_bound(facts)} {facts.amount(facts.limit)}{of_it}"
    if facts.need is None or (facts.have or 0) >= facts.need:
        return "does not fit on the nodes as they are configured, even when all are idle"
    need, have = f"{facts.amount(facts.need)}{facts.kind()}", facts.amount(facts.have)
    of = facts.scope.get("of", "all nodes")
    if of == "all nodes":
        return f"needs {need}, and {facts.nodes()} have {have} together even when idle"
    return f"needs {need} on {of}, and the largest has {have}"


def _bound(facts: Facts) -> str:
    """Who never has more than an amount, which follows."""
    queue = facts.scope["queue"]
    if whose := _whose(facts):
        return f"{whose} may never hold more in queue {queue} than"
    if facts.scope.get("of") == "nominal":
        return f"may not borrow, for it may not be preempted: of its own queue {queue} has"
    return f"queue {queue} may never hold more than"


#: What keeps one group from giving way, and what keeps several, by the rule that says so.
_KEEPING = {
    "min_runtime": (
        "has not run for its queue's min_runtime yet",
        "have not run for their queue's min_runtime yet",
    ),
    "evictions_per_day": (
        "has given way as often as its queue's evictions_per_day allows",
        "have given way as often as their queue's evictions_per_day allows",
    ),
    "resize_interval": ("was resized less than {interval} ago", "were resized less than {interval} ago"),
}


def _delayed(facts: Facts) -> str:
    """Of others that would give way, but not yet."""
    groups, until = facts.scope.get("groups"), facts.scope.get("until")
    if groups is None or until is None:
        return "others would give way to it, but not yet"
    seconds = float(facts.scope.get("resize_interval_seconds", 0))
    interval = f"{seconds:g} seconds" if seconds < 60 else f"{seconds / 60:g} minutes"
    kept = [
        f"{count} {(one if count == '1' else several).format(interval=interval)}"
        for rule, (one, several) in _KEEPING.items()
        if (count := facts.scope.get(rule)) is not None
    ]
    gives = f"{_groups(int(groups))} would give up {facts.amount(facts.have)} for it"
    return f"{gives}, but not before {until}: {', '.join(kept)}"


def _turn(facts: Facts) -> str:
    named = ", ".join(facts.holders[:_NAMED_HOLDERS])
    return f"waits behind {named}, for the queue is strict" if named else "waits behind another group"


def _held(facts: Facts) -> str:
    named = ", ".join(facts.holders[:_NAMED_HOLDERS]) or "another group"
    until = facts.scope.get("until")
    date = f" until {until}" if until else ""
    if facts.scope.get("time_limit") == "none":
        how = "it has no time limit, so it counts as never ending"
    else:
        how = "it would not surely end before" if until else "they have no date"
    if facts.scope.get("of") == "quota":
        what, queue = facts.scope.get("flavor") or facts.resource, facts.scope.get("queue", "")
        return (
            f"needs {facts.amount(facts.need)} of {what}, and of its quota queue {queue} "
            f"has {facts.amount(facts.have)} besides what is kept for {named}{date}: {how}"
        )
    return f"the places that it could use are kept for {named}{date}: {how}"


def _after(facts: Facts) -> str:
    ended = {"ok": "to succeed", "not_ok": "to fail"}.get(facts.scope.get("when", ""), "to end")
    if not facts.holders:
        return f"waits for other groups {ended}"
    named = ", ".join(facts.holders[:_NAMED_HOLDERS])
    more = len(facts.holders) - _NAMED_HOLDERS
    return f"waits for {named}{f' and {more} more' if more > 0 else ''} {ended}"


def _stopped(facts: Facts) -> str:
    return f"queue {facts.scope.get('queue', '')} is stopped"


def _backing_off(facts: Facts) -> str:
    until = facts.scope.get("until")
    return f"its size does not change again before {until}" if until else "waits before its next attempt"


def _plain(text: str) -> Callable[[Facts], str]:
    return lambda _: text


_SENTENCES: Mapping[Code, Callable[[Facts], str]] = {
    Code.NEVER_FITS: _never,
    Code.QUEUE_MISSING: _plain("its queue does not exist"),
    Code.QUEUE_STOPPED: _stopped,
    Code.NO_MATCHING_FLAVOR: _no_flavor,
    Code.ON_HOLD: _plain("it is held"),
    Code.DEPENDENCY_PENDING: _after,
    Code.BACKING_OFF: _backing_off,
    Code.DISPATCH_REFUSED: _plain("the launcher refused its start"),
    Code.QUOTA_EXCEEDED: _quota,
    Code.BORROWING_LIMIT: _borrowing,
    Code.LENDING_LIMIT: _lending,
    Code.INSUFFICIENT_GPUS: _insufficient,
    Code.INSUFFICIENT_CPU: _insufficient,
    Code.INSUFFICIENT_MEMORY: _insufficient,
    Code.FRAGMENTED: _fragmented,
    Code.TOPOLOGY_UNSATISFIED: _topology,
    Code.NODES_UNAVAILABLE: _unavailable,
    Code.DEVICES_UNHEALTHY: _unhealthy,
    Code.PREEMPTION_IN_PROGRESS: _giving_way,
    Code.PREEMPTION_DELAYED: _delayed,
    Code.HELD_FOR_CLAIM: _held,
    Code.WAITING_FOR_TURN: _turn,
    Code.PENDING_EVALUATION: _plain("no cycle has decided on it yet"),
}
