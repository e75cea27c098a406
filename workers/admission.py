"""The leader: takes the lease, runs admission cycles, and drops all that it knows when in doubt (R3).

A cycle is four steps: read and plan, reserve, commit, publish. Each can be called by itself, so that
a leader can be stopped between any two of them and go on later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg
import redis
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from service import jobs
from service.admission.plan import Plan
from service.clock import Clock
from service.inventory.ledger import Ledger, LedgerFenced
from service.operations.commit import Outdated
from service.operations.count_decisions import count_decisions
from service.operations.lead import get_settled_lease, give_up_lease, renew_lease, take_lease
from service.operations.policy import policy_of
from service.operations.term import LedgerDisagrees, ReservationRefused, Term
from service.points import reach
from service.settings import Settings
from service.store.engine import make_direct_engine
from workers.collector import spare_collector
from workers.lease_keeper import LeaseKeeper
from workers.suspects import Suspects

_log = structlog.get_logger(__name__)

#: What ends a term (R3): an answer that was not expected, or a store that failed.
TROUBLE = (LedgerDisagrees, LedgerFenced, redis.RedisError, SQLAlchemyError, psycopg.Error)
#: A cycle whose plan did not all come to be looks again at once, but not for ever.
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleWrite:
    """A late write of a leader whose epoch is over; `by` is who refused it: ledger or store."""

    holder: str
    epoch: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """`is_leader` False: somebody else leads. `admitted` and `waiting` count units and waiting rows,
    `decisions` what else was decided, by the names of `cycle_stats`.
    `is_settled` False: not everything that was planned came to be; look again."""

    is_leader: bool
    is_settled: bool
    admitted: int = 0
    waiting: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Cycle:
    """A cycle under way, and how far it has come."""

    plan: Plan
    is_reserved: bool = False
    is_committed: bool = False
    admitted: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)


class Leader:
    """One candidate for leadership. Not thread-safe, except for its lease keeper.

    `keeps_lease` renews the lease from a thread, for processes that live by the wall clock and do nothing
    else; without it each cycle renews it. `name` has to be unique among those that live: a leader may
    always take its own lease. Methods raise sqlalchemy's or redis' errors while a store is away, and can
    be called again.
    """

    def __init__(
        self,
        database_url: str,
        client: redis.Redis,
        *,
        clock: Clock,
        settings: Settings,
        name: str,
        keeps_lease: bool = False,
    ) -> None:
        self.name = name
        self.stale_refusals: list[StaleWrite] = []
        self.term: Term | None = None
        self._engine = make_direct_engine(database_url)
        self._client = client
        self._clock = clock
        self._settings = settings
        self._keeps_lease = keeps_lease
        self._keeper: LeaseKeeper | None = None
        self._cycle: _Cycle | None = None
        self._suspects = Suspects()
        self._is_superseded = False

    # ------------------------------------------------------------------ the lease
    def hold_lease(self) -> bool:
        """Keep the lease, or take it if nobody else has it (L1, L3); False if somebody has."""
        if self.term is not None and not self._is_still_ours(self.term):
            _log.warning("lease_gone", holder=self.name, epoch=self.term.epoch)
            self._drop()
        if self.term is None:
            self._take()
        return self.term is not None

    def close(self) -> None:
        """Leave in good order: the next one may lead at once."""
        if self.term is not None:
            try:
                give_up_lease(self.term.conn, epoch=self.term.epoch, now=self._clock.now())
                reach("worker.lease-given-up")
            except SQLAlchemyError as error:
                _log.warning("lease_not_given_up", holder=self.name, error=type(error).__name__)
        self.abandon()

    def abandon(self) -> None:
        """Close the connections and forget everything, as a crash would; the lease runs out by itself."""
        self._drop()
        self._engine.dispose()

    # ------------------------------------------------------------------ cycles
    def run_cycle(self) -> CycleResult:
        """One admission cycle over all queues, begun anew if the present was not the plan's."""
        self._cycle = None
        return self.resume()

    def resume(self) -> CycleResult:
        """Go on from where the cycle stands, to its end."""
        try:
            return self._resume()
        finally:
            if self._keeper is not None:
                self._keeper.end_cycle()

    def _resume(self) -> CycleResult:
        admitted, waiting, decisions = 0, 0, Counter[str]()
        is_settled = False
        for _ in range(_ROUNDS):
            if self._cycle is None and not self.read_and_plan():
                break
            cycle, self._is_superseded = self._cycle, False
            assert cycle is not None
            is_settled = self._finish(cycle)
            self._cycle = None
            admitted += cycle.admitted
            decisions.update(cycle.decisions)
            waiting = sum(len(queue.order) for queue in cycle.plan.queues.values())
            if is_settled or self._is_superseded:
                break
        return CycleResult(
            is_leader=is_settled or self.term is not None,
            is_settled=is_settled,
            admitted=admitted,
            waiting=waiting,
            decisions=decisions,
        )

    def read_and_plan(self) -> bool:
        """Learn what changed, and decide. Writes nothing but the lease. False if somebody else leads."""
        self._cycle = None
        # A ledger that is not as it was left ends the term; a second try begins the next one.
        return any(self.hold_lease() and self._attempt(self._read_and_plan) for _ in range(2))

    def reserve(self) -> bool:
        """Apply committed releases to the ledger (R5), then take the plan's places in it (R1)."""
        return self._attempt(self._reserve)

    def commit(self) -> bool:
        """The cycle's transaction (L2). False if not all that was planned came to be."""
        return self._attempt(self._commit)

    def publish(self) -> bool:
        """Show readers what was decided (P1)."""
        return self._attempt(self._publish)

    def apply_releases(self) -> bool:
        """Bring the ledger up to date with committed ends (R5), also when nothing waits. True if
        anything was written to it."""
        return self.hold_lease() and self._attempt(self._apply_releases)

    def seconds_to_wake(self) -> float | None:
        """How long until a backoff ends, or the like, and a cycle may do more, though nobody rings; None if
        nothing does, or somebody else leads."""
        now = self._clock.now()
        wake_at = None if self.term is None else self.term.next_wake(now)
        return None if wake_at is None else (wake_at - now).total_seconds()

    def _finish(self, cycle: _Cycle) -> bool:
        is_reserved = cycle.is_reserved or self.reserve()
        is_committed = is_reserved and (cycle.is_committed or self.commit())
        return is_committed and self.publish()

    def _read_and_plan(self, term: Term) -> bool:
        if self._keeper is not None:
            self._keeper.begin_cycle()
        term.read()
        now = self._clock.now()
        self._cycle = _Cycle(term.plan(now, without=self._suspects.rows(term.world, now)))
        return True

    def _reserve(self, term: Term) -> bool:
        cycle = self._cycle_under_way()
        term.settle()
        try:
            term.reserve(cycle.plan.admissions, cycle.plan.resizes)
        except ReservationRefused as error:
            version = cycle.plan.config_version
            self._suspects.note_refused(error.admissions, config_version=version, now=self._clock.now())
            raise
        self._suspects.note_reserved()
        cycle.is_reserved = True
        return True

    def _commit(self, term: Term) -> bool:
        cycle = self._cycle_under_way()
        if cycle.plan.is_quiet:
            cycle.is_committed = True
            return True
        before = dict(term.world.claims)
        outcome = term.commit(cycle.plan, self._clock.now())
        if isinstance(outcome, Outdated):
            if outcome.found.epoch != term.epoch:
                self._note_stale(term, by="store")
                self._drop()
            else:
                term.give_back(cycle.plan.admissions, cycle.plan.resizes)
            return False
        reach("worker.committed")
        cycle.admitted = len(outcome.won)
        cycle.decisions = count_decisions(cycle.plan, outcome, before=before)
        cycle.is_committed = True
        # Whoever waits for the dispatcher waits for this bell; readers and the losers' places can wait.
        pools = {each.pool_id for each in outcome.won} | {each.pool_id for each in outcome.evicted}
        pools |= {each.pool_id for each in outcome.resized}
        jobs.ring_all_dispatchers(self._client, pools)
        reach("worker.dispatchers-rung")
        term.give_back(outcome.lost, outcome.not_resized)
        return not outcome.lost and not outcome.not_resized

    def _publish(self, term: Term) -> bool:
        is_newest = term.publish(self._cycle_under_way().plan, self._clock.now())
        if not is_newest:
            self._note_stale(term, by="ledger")
            self._drop()
        return is_newest

    def _apply_releases(self, term: Term) -> bool:
        term.read()
        return term.settle()

    def _cycle_under_way(self) -> _Cycle:
        if self._cycle is None:
            raise RuntimeError("no cycle is under way: read and plan first")
        return self._cycle

    # ------------------------------------------------------------------ when in doubt
    def _attempt(self, step: Callable[[Term], bool]) -> bool:
        term = self.term
        if term is None:
            return False
        try:
            return step(term)
        except TROUBLE as error:
            self._drop()
            self._explain(error, term)
            return False

    def _explain(self, error: Exception, term: Term) -> None:
        """Say what ended the term: a later epoch, or trouble of its own."""
        try:
            by = self._refused_by(error, term.epoch)
        except TROUBLE:
            by = None
        if by is None:
            _log.warning("term_ended", holder=self.name, epoch=term.epoch, error=_sentence(error))
        else:
            self._note_stale(term, by=by)

    def _refused_by(self, error: Exception, epoch: int) -> str | None:
        if isinstance(error, redis.RedisError):
            return None
        if isinstance(error, LedgerDisagrees | LedgerFenced):
            stamp = Ledger(self._client).stamp()
            return "ledger" if stamp is not None and stamp.epoch > epoch else None
        with self._engine.connect() as conn:
            return "store" if get_settled_lease(conn).epoch > epoch else None

    def _note_stale(self, term: Term, *, by: str) -> None:
        self._is_superseded = True
        self.stale_refusals.append(StaleWrite(holder=self.name, epoch=term.epoch, by=by))
        _log.warning("stale_write_refused", holder=self.name, epoch=term.epoch, by=by)

    def _is_still_ours(self, term: Term) -> bool:
        if self._keeper is not None:
            return not self._keeper.is_lost
        try:
            return renew_lease(
                term.conn,
                epoch=term.epoch,
                now=self._clock.now(),
                lease_seconds=self._settings.lease_seconds,
            )
        except SQLAlchemyError:
            return False

    def _take(self) -> None:
        # Without Redis there is nothing to lead with: find out before an epoch is used up.
        stamp = Ledger(self._client).stamp()
        conn = self._engine.connect()
        try:
            epoch = take_lease(
                conn,
                holder=self.name,
                now=self._clock.now(),
                lease_seconds=self._settings.lease_seconds,
                above=stamp.epoch if stamp is not None else 0,
                from_the_gone=self._keeps_lease,
            )
            if epoch is None:
                conn.close()
                return
            reach("worker.lease-taken")
            self._keep(epoch)
            policy = policy_of(self._settings)
            self.term = Term(conn, self._client, epoch=epoch, policy=policy)
        except BaseException:
            self._stop_keeping()
            _discard(conn)
            raise
        if self._keeps_lease:
            spare_collector()
        _log.info("lease_taken", holder=self.name, epoch=epoch)

    def _keep(self, epoch: int) -> None:
        if self._keeps_lease:
            self._keeper = LeaseKeeper(
                self._engine,
                epoch=epoch,
                clock=self._clock,
                lease_seconds=self._settings.lease_seconds,
                bound_seconds=self._settings.cycle_bound_seconds,
            )
            self._keeper.start()

    def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None

    def _drop(self) -> None:
        """Forget everything: what is known is worth nothing without its epoch and connection (W3)."""
        self._stop_keeping()
        if self.term is not None:
            _discard(self.term.conn)
        self.term = None
        self._cycle = None


def _discard(conn: Connection) -> None:
    """Close a connection that may be broken, or in the middle of a transaction."""
    conn.invalidate()
    conn.close()


def _sentence(error: Exception) -> str:
    """One line; a statement's values have no place in a log."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else ''}"
