"""Random groups that wait for each other, and random ends: nobody starts early, everybody who can start does,
and nobody is cancelled for what could still be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient
from redis import Redis
from sqlalchemy import Engine, text

from service.settings import Settings
from tests.integration.api.cluster import Cluster

Client = TestClient[Litestar]

_NUMBERS = itertools.count()
_SATISFIED = {
    "ok": {"Succeeded"},
    "not_ok": {"Failed"},
    "any": {"Succeeded", "Failed", "Cancelled"},
}
_ENDED = _SATISFIED["any"]


@dataclass(frozen=True)
class Step:
    """A group comes that waits for some of those before it (so many places before, how); then some that run
    or wait end."""

    after: dict[int, str]
    is_independent: bool
    is_batched: bool
    ends: list[tuple[int, str]]


@dataclass
class Model:
    """What has to be true of each group, by what it waits for and what was done."""

    after: list[dict[int, str]] = field(default_factory=list)
    status: list[str] = field(default_factory=list)

    def submit(self, after: dict[int, str]) -> None:
        self.after.append(after)
        self.status.append("Pending")
        self._settle()

    def end(self, index: int, status: str) -> None:
        self.status[index] = status
        self._settle()

    def _settle(self) -> None:
        for index, after in enumerate(self.after):
            if self.status[index] != "Pending":
                continue
            found = [(self.status[on], _SATISFIED[when]) for on, when in after.items()]
            if any(status in _ENDED - wanted for status, wanted in found):
                self.status[index] = "Cancelled"
            elif all(status in wanted for status, wanted in found):
                self.status[index] = "Running"


_STEPS = st.lists(
    st.builds(
        Step,
        after=st.dictionaries(st.integers(1, 5), st.sampled_from(["ok", "ok", "not_ok", "any"]), max_size=3),
        is_independent=st.booleans(),
        is_batched=st.booleans(),
        ends=st.lists(
            st.tuples(st.integers(0, 11), st.sampled_from(["Succeeded", "Succeeded", "Failed", "Cancelled"])),
            max_size=2,
        ),
    ),
    min_size=2,
    max_size=12,
)


@pytest.fixture
def cluster(settings: Settings, engine: Engine, redis: Redis) -> Iterator[Cluster]:
    cluster = Cluster(settings, engine, redis, gpus=8)
    yield cluster
    cluster.close()


class Walk:
    """The real thing beside the model."""

    def __init__(self, client: Client, cluster: Cluster, engine: Engine) -> None:
        self.client, self.cluster, self.engine = client, cluster, engine
        self.walk = next(_NUMBERS)
        self.ids: list[str] = []
        self.model = Model()

    def submit(self, step: Step) -> None:
        number = len(self.ids)
        after = {number - before: when for before, when in step.after.items() if before <= number}
        body = {
            "name": self.name(number),
            "command": ["true"],
            "cpus": 0.1,
            "members": 2 if step.is_independent else 1,
            "scheduling": "independent" if step.is_independent else "gang",
            "recovery": {"on_member_loss": "fail"},
            "after": [{"group": self.ids[on], "when": when} for on, when in after.items()],
        }
        if step.is_batched:
            answer = self.client.post("/v1/groups/batch", json={"groups": [body]})
            self.ids.append(answer.json()["groups"][0]["id"])
        else:
            self.ids.append(self.client.post("/v1/groups", json=body).json()["id"])
        self.model.submit(after)

    def end(self, index: int, status: str) -> None:
        """What waits can only be cancelled."""
        if index >= len(self.ids) or self.model.status[index] in _ENDED:
            return
        if status == "Cancelled":
            assert self.client.delete(f"/v1/groups/{self.ids[index]}").status_code == 202
        elif self.model.status[index] == "Running":
            self.cluster.machines.end(self.name(index), exit_code=int(status == "Failed"))
        else:
            return
        self.model.end(index, status)

    def name(self, index: int) -> str:
        return f"walk {self.walk} group {index}"

    def check(self) -> None:
        self.cluster.settle()
        found = [self.client.get(f"/v1/groups/{each}").json() for each in self.ids]
        assert [each["status"] for each in found] == self.model.status
        # What was cancelled by nobody says why.
        for each in found:
            if each["cause"] == "DependencyNeverMet":
                assert each["status"] == "Cancelled"
        with self.engine.connect() as conn:
            wrong = conn.execute(
                text(
                    "SELECT count(*) FROM units u WHERE u.ended_at IS NULL"
                    " AND COALESCE(u.open_dependencies, 0) <> (SELECT count(*) FROM group_dependencies d"
                    "     WHERE d.group_id = u.group_id AND d.met_at IS NULL)"
                )
            ).scalar_one()
        assert wrong == 0

    def close(self) -> None:
        for index in range(len(self.ids)):
            self.end(index, "Cancelled")
        self.cluster.settle()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # Each step runs whole cycles: what is found is small enough as it is.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(steps=_STEPS)
def test_everybody_starts_when_it_is_time_and_nobody_before(
    admin: Client, cluster: Cluster, engine: Engine, steps: list[Step]
) -> None:
    walk = Walk(admin, cluster, engine)
    try:
        for step in steps:
            walk.submit(step)
            walk.check()
            for index, status in step.ends:
                walk.end(index, status)
                walk.check()
    finally:
        walk.close()
