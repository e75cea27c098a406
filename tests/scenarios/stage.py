"""One scenario's world: the real application, leaders and dispatchers over real stores, with a
virtual clock and the simulated launcher. Nothing runs by itself."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import redis
from litestar.testing import TestClient

from service.api.app import create_app
from service.clock import VirtualClock
from service.domain.events import Kind
from service.domain.principal import KeyRole
from service.domain.reasons import FAMILIES
from service.domain.status import Status, group_status
from service.inventory.ledger import Ledger
from service.inventory.state import LedgerState
from service.settings import Settings
from service.store.engine import make_engine
from tests.scenarios.bodies import group_body, queue_body
from tests.scenarios.books import Books
from tests.scenarios.invariants import every_pending_group_has_a_reason
from tests.scenarios.launcher import LauncherView
from tests.scenarios.ledger_watch import watched
from tests.scenarios.scenario import Map, Scenario, ScenarioError, step_groups
from tests.scenarios.workers import Workers
from workers.admission import Leader
from workers.dispatch import Dispatcher

_START = datetime(2026, 1, 1, tzinfo=UTC)
_ADMIN_KEY = "the-admin-of-the-scenario"
_PASSES = 200


class Stage:
    """Everything that steps, counters and checks look at."""

    def __init__(self, scenario: Scenario, database_url: str, redis_url: str) -> None:
        self.scenario = scenario
        self.clock = VirtualClock(_START)
        self.answers: dict[int, list[httpx.Response]] = {}
        self.ids: dict[str, str] = {}
        self.submitted: dict[str, Map] = {}
        self.users: dict[str, str] = {"admin": _ADMIN_KEY}
        self.ended: dict[str, str] = {}
        self.used_before: dict[str, Counter[str]] = {}
        self.pictures: dict[int, list[object]] = {}
        self.leases: dict[int, Map] = {}
        self._markers: dict[int, Map] = {}
        self._peaks: list[dict[str, int]] = []
        self._responses: list[httpx.Response] = []
        self._step = 0
        self._folder = tempfile.TemporaryDirectory(prefix="muster-scenario-")
        self.settings = self._make_settings(database_url, redis_url)
        self.engine = make_engine(database_url, pool_size=4)
        self.books = Books(self.engine)
        self.redis = watched(redis_url)
        self.redis.on_script = self._note_peak
        self.nodes: dict[str, Map] = {node["name"]: node for node in scenario.body["cluster"]["nodes"]}
        self.launcher = LauncherView(self, scenario.body["cluster"])
        self.workers = Workers(self._make_leader)

    # ------------------------------------------------------------------ life
    def __enter__(self) -> Self:
        self.books.count_writes()
        self._start_service()
        self._set_up()
        self.finish({"step": 0})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_service()
        self.redis.close()
        self.engine.dispose()
        self._folder.cleanup()

    def restart(self, *, ledger_is_lost: bool) -> None:
        """API, workers and dispatchers are made anew; PostgreSQL and the launcher live on."""
        self._stop_service()
        if ledger_is_lost:
            self.redis.flushall()
            self.workers.has_doubt = True
        self._start_service()

    def _start_service(self) -> None:
        app = create_app(self.settings, engine=self.engine, redis=self.redis, clock=self.clock)
        self._client = TestClient(app, raise_server_exceptions=False)
        self._client.__enter__()
        self._dispatchers = [
            Dispatcher(
                self.engine,
                self.launcher.of_pool(pool),
                pool_name=pool,
                clock=self.clock,
                settings=self.settings,
                ring_leader=lambda: None,
                holder="dispatcher",
            )
            for pool in self.pools()
        ]

    def _stop_service(self) -> None:
        self.workers.close()
        for dispatcher in self._dispatchers:
            dispatcher.close()
        self._client.__exit__(None, None, None)

    def _set_up(self) -> None:
        for user in self.scenario.body.get("users", []):
            body = {"tenant": user["tenant"], "user": user["name"], "role": KeyRole(user["role"]).value}
            self.users[user["name"]] = self._request("POST", "/v1/keys", json=body).json()["key"]
        for cohort in self.scenario.cohorts():
            response = self._request("POST", "/v1/cohorts", json=cohort)
            assert response.status_code == 201, response.text
        for queue in self.scenario.body["queues"]:
            response = self._request("POST", "/v1/queues", json=queue_body(queue))
            assert response.status_code == 201, response.text
        self.dispatcher_pass()

    def _make_settings(self, database_url: str, redis_url: str) -> Settings:
        said = dict(self.scenario.body.get("settings", {}))
        # Settings that are a number or a word.
        said |= {
            name: str(said[name]) for name in ("reserve_depth", "fair_share_price_seconds") if name in said
        }
        unknown = said.keys() - set(Settings.__struct_fields__)
        if unknown:
            raise ScenarioError(f"settings {sorted(unknown)} are not known")
        return Settings(
            **{"lease_seconds": 30.0, **said},
            database_url=database_url,
            redis_url=redis_url,
            data=Path(self._folder.name),
            api_key=_ADMIN_KEY,
            levels=",".join(self.levels()),
        )

    def _make_leader(self, name: str) -> Leader:
        return Leader(
            self.settings.database_url, self.redis, clock=self.clock, settings=self.settings, name=name
        )

    # ------------------------------------------------------------------ time
    @property
    def at(self) -> float:
        return self.seconds(self.clock.now())

    @staticmethod
    def seconds(instant: str | datetime) -> float:
        """Seconds from the start of the scenario."""
        moment = datetime.fromisoformat(instant) if isinstance(instant, str) else instant
        return (moment - _START).total_seconds()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def begin(self, step: Map) -> None:
        self._step = step["step"]
        self.answers[step["step"]] = []
        # A step with repetitions may have moved the clock beyond the next step's instant.
        self.clock.move_to(max(self.clock.now(), _START + timedelta(seconds=step["at"])))

    def finish(self, step: Map) -> None:
        """Remember how far everything is at the end of this step."""
        launched = self.launcher.marker()
        self._markers[step["step"]] = self.books.marker() | {
            "published": self.redis.published,
            "peaks": len(self._peaks),
            "launcher": launched,
        }
        [lease] = self.books.rows(
            "SELECT l.holder, l.epoch, e.expires_at FROM leadership l JOIN leadership_expiry e USING (id)"
        )
        self.leases[step["step"]] = dict(lease)

    def marker(self, step: int) -> Map:
        return self._markers[step]

    # ------------------------------------------------------------------ what runs
    def dispatcher_pass(self) -> None:
        """Until nothing is left to do at this instant."""
        for _ in range(_PASSES):
            did = [dispatcher.pass_once() for dispatcher in self._dispatchers]
            if self._ledger_lags():
                did.append(self.workers.apply_releases())
            if not any(did):
                return
        raise AssertionError(f"dispatchers are not done after {_PASSES} passes")

    def _ledger_lags(self) -> bool:
        """Whether PostgreSQL has decided releases or losses that the ledger does not show yet."""
        ledger = Ledger(self.redis).read()
        if ledger is None:
            return False
        held = {
            (row["unit_id"], row["attempt"])
            for row in self.books.rows("SELECT unit_id, attempt FROM attempts")
        }
        lost = {
            (row["node_id"], row["device"])
            for row in self.books.rows(
                "SELECT d.node_id, d.device FROM devices d JOIN nodes n ON n.id = d.node_id"
                " WHERE d.lost_at IS NOT NULL OR NOT n.is_ready"
            )
        }
        return not set(ledger.holders().values()) <= held or ledger.lost != lost

    def cycle(self, worker: str) -> None:
        self.dispatcher_pass()
        is_leader = self.workers.cycle(worker)
        seen = {row["id"] for row in self.books.units() if row["status"] == "Pending"}
        self.dispatcher_pass()
        if is_leader:
            every_pending_group_has_a_reason(self, seen)

    def frozen_cycle(self, worker: str, point: str) -> None:
        self.dispatcher_pass()
        self.workers.freeze_after(worker, point)

    def resume(self, worker: str) -> None:
        self.workers.resume(worker)
        self.dispatcher_pass()

    def kill(self, worker: str) -> None:
        self.workers.kill(worker)

    def books_must_agree(self) -> bool:
        return not self.workers.has_doubt and self.redis.exists("muster:ledger") == 1

    def stale_refusals(self, worker: str) -> list[str]:
        return self.workers.stale_refusals(worker)

    # ------------------------------------------------------------------ calls
    def call(self, method: str, path: str, step: Map, *, json: object = None) -> httpx.Response:
        """A call of a step, with the key of `by`; its answer is kept for the checks."""
        response = self._request(method, path, by=step.get("by", "admin"), json=json)
        self.answers[self._step].append(response)
        return response

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._request("GET", path, params=query)

    def _request(self, method: str, path: str, *, by: str = "admin", **arguments: Any) -> httpx.Response:
        if arguments.get("json", self) is None:
            del arguments["json"]
        headers = {"Authorization": f"Bearer {self.users[by]}"}
        response = self._client.request(method, path, headers=headers, **arguments)
        self._responses.append(response)
        return response

    def new_responses(self) -> list[httpx.Response]:
        new, self._responses = self._responses, []
        return new

    def body_of(self, fields: Map, name: str) -> Map:
        """A group as the API takes it."""
        return group_body(
            fields, name, id_of=self.public_id, instant=lambda at: _START + timedelta(seconds=at)
        )

    def note_submitted(self, name: str, fields: Map, answer: Map) -> None:
        self.ids[name] = answer["id"]
        self.submitted[name] = fields

    def submits_of(self, name: str) -> list[int]:
        timeline = self.scenario.body["timeline"]
        return [
            step["step"]
            for step in timeline
            if (step["do"] == "submit" and name in step_groups(step))
            or (step["do"] == "submit_batch" and name in [entry["group"] for entry in step["batch"]])
        ]

    # ------------------------------------------------------------------ answers
    def public_id(self, name: str) -> str:
        return self.ids[name]

    def group_answer(self, name: str) -> Map:
        return self._ok(f"/v1/groups/{self.public_id(name)}")

    def member_answers(self, name: str) -> list[Map]:
        return list(self._ok(f"/v1/groups/{self.public_id(name)}/members")["members"])

    def position_answer(self, name: str) -> Map:
        return self._ok(f"/v1/groups/{self.public_id(name)}/position")

    def reasons(self, name: str) -> list[Map]:
        return list(self._ok(f"/v1/groups/{self.public_id(name)}/reasons")["reasons"])

    def queue_answer(self, name: str) -> Map:
        return self._ok(f"/v1/queues/{name}")

    def waiting(self, queue: str) -> list[Map]:
        """Every waiting group of a queue, page after page."""
        groups: list[Map] = []
        query = {"queue": queue, "waiting": "true"}
        while True:
            page = self._ok("/v1/groups", **query)
            groups += page["groups"]
            if page["cursor"] is None:
                return groups
            query["cursor"] = page["cursor"]

    def _ok(self, path: str, **query: Any) -> Map:
        response = self.get(path, **query)
        assert response.status_code == 200, f"GET {path}: {response.status_code} {response.text}"
        body: Map = response.json()
        return body

    @staticmethod
    def family(code: str) -> str:
        """The family of a reason's code. A code that has none is an error."""
        [family] = [name for name, codes in FAMILIES.items() if code in codes]
        return family

    @staticmethod
    def event_kinds() -> list[str]:
        return [kind.value for kind in Kind]

    # ------------------------------------------------------------------ the books
    def statuses(self) -> dict[str, str]:
        """Status of every submitted group, as its units in PostgreSQL have it."""
        counts: dict[str, Counter[Status]] = {}
        for row in self.books.units():
            members = row["last_index"] - row["first_index"] + 1
            counts.setdefault(row["group"], Counter())[Status(row["status"])] += members
        return {name: group_status(counted).value for name, counted in counts.items()}

    def pending(self) -> set[str]:
        """Groups of which something waits."""
        return {row["group"] for row in self.books.units() if row["status"] == "Pending"}

    def queue_of(self, name: str) -> str:
        return str(self.submitted[name]["queue"])

    def first_admission_cycle(self, name: str) -> tuple[int, int] | None:
        rows = [row for row in self.books.events("Admitted") if row["group"] == name]
        return (rows[0]["data"]["epoch"], rows[0]["data"]["cycle"]) if rows else None

    def ceilings(self, queue: str) -> Map:
        """The most that a queue may hold by flavor, by its own answer."""
        answer = self.queue_answer(queue)
        nominal, limit = answer["nominal_quota"], answer["limit"]
        borrowing = answer["borrowing_limit"] if answer["cohort"] else dict.fromkeys(self.flavors(), 0)
        bounds: dict[str, list[float]] = {flavor: [] for flavor in self.flavors()}
        for flavor, own in bounds.items():
            if nominal is not None and flavor in borrowing:
                own.append(nominal.get(flavor, 0) + borrowing[flavor])
            if flavor in limit:
                own.append(limit[flavor])
        return {flavor: min(own) for flavor, own in bounds.items() if own}

    def queues_below(self, cohort: str) -> list[str]:
        """The queues of the file in this cohort, and in cohorts below it."""
        below = {cohort}
        for each in self.scenario.cohorts():
            if each.get("parent") in below:
                below.add(each["name"])
        return [queue["name"] for queue in self.scenario.body["queues"] if queue.get("cohort") in below]

    def cohort_answer(self, name: str) -> Map:
        return self._ok(f"/v1/cohorts/{name}")

    def receipts(self) -> list[Map]:
        return list(self._ok("/v1/preemptions", limit=100)["preemptions"])

    # ------------------------------------------------------------------ the ledger
    def _ledger(self) -> LedgerState:
        return Ledger(self.redis).read() or LedgerState(nodes={}, devices={})

    def _named(self, devices: object) -> list[tuple[str, int]]:
        names = {row["id"]: row["name"] for row in self.books.rows("SELECT id, name FROM nodes")}
        return [(names[node], device) for node, device in devices]  # type: ignore[attr-defined]

    def ledger_holders(self) -> dict[tuple[str, int], str]:
        holders = self._ledger().holders()
        names = {row["id"]: row["name"] for row in self.books.rows("SELECT id, name FROM groups")}
        devices = self._named(holders)
        return {key: names[unit >> 20] for key, (unit, _) in zip(devices, holders.values(), strict=True)}

    def ledger_free(self) -> list[tuple[str, int]]:
        return self._named(self._ledger().free())

    def ledger_lost(self) -> set[tuple[str, int]]:
        return set(self._named(self._ledger().lost))

    def ledger_devices(self) -> list[tuple[str, int]]:
        return self._named(self._ledger().devices)

    def _note_peak(self) -> None:
        quiet = redis.Redis(connection_pool=self.redis.connection_pool)
        state = Ledger(quiet).read()
        if state is not None:
            held = Counter(unit >> 20 for unit, _ in state.holders().values())
            self._peaks.append({str(group): gpus for group, gpus in held.items()})

    def ledger_peaks(self, since: int) -> list[dict[str, int]]:
        """GPUs held by group after each write to the ledger since the end of that step."""
        names = {str(row["id"]): row["name"] for row in self.books.rows("SELECT id, name FROM groups")}
        first = max(0, self.marker(since)["peaks"] - 1)
        return [{names[group]: n for group, n in held.items()} for held in self._peaks[first:]]

    def published_since(self, step: int) -> int:
        return int(self.redis.published - self.marker(step)["published"])

    # ------------------------------------------------------------------ the cluster
    def levels(self) -> list[str]:
        return list(self.scenario.body["cluster"].get("levels", ["host"]))

    def pools(self) -> list[str]:
        return sorted({self.pool(name) for name in self.nodes})

    def pool(self, node: str) -> str:
        return str(self.nodes[node].get("pool", "p1"))

    def model(self, node: str) -> str:
        return str(self.nodes[node].get("model", "mx"))

    def flavors(self) -> list[str]:
        return sorted({self.model(name) for name, node in self.nodes.items() if node["gpus"]})

    def label(self, node: str, level: str) -> str:
        return str({"host": node, **self.nodes[node].get("labels", {})}[level])

    def room(self, node: str) -> Mapping[str, int]:
        said = self.nodes[node]
        return {
            "gpus": said["gpus"],
            "cpus_milli": said.get("cpus", 16 * said["gpus"]) * 1000,
            "memory_mib": said.get("memory_gib", 128 * said["gpus"]) * 1024,
        }

    # ------------------------------------------------------------------ pictures
    def take_picture(self, step: int) -> None:
        """Status, places and member starts and stops, for `stable` and `until: settled`."""
        held = [(each.group, each.attempt, each.places) for each in self.books.held()]
        statuses = [(row["id"], row["status"]) for row in self.books.units()]
        self.pictures.setdefault(step, []).append((statuses, held, self.launcher.marker()))

    def picture(self) -> str:
        """For people: what is where, at a failure."""
        lines = [f"at {self.at:g} s, step {self._step}"]
        lines += [f"  {name}: {status}" for name, status in list(self.statuses().items())[:40]]
        lines += [f"  {held.group} holds {held.gpus} (attempt {held.attempt})" for held in self.books.held()]
        return "\n".join(lines)
