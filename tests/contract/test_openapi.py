"""The description is the one in the repository, and the API does what it says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from service.api.openapi import document
from service.clock import SystemClock
from service.inventory.client import make_client
from service.settings import Settings
from service.store.engine import make_engine
from tests import servers
from tests.integration.api.rows import add_nodes, add_pool
from tests.servers import Databases
from tests.serving import KEY, Served, serving
from workers.admission import Leader
from workers.embedded.valkey import ValkeyServer

ROOT = Path(__file__).parents[2]


def test_the_description_in_the_repository_is_that_of_the_code() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "service.api.openapi"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    kept = (ROOT / "openapi" / "openapi.json").read_text()
    assert made.stdout == kept, "run `make openapi`"


def test_every_operation_has_a_name_a_summary_and_true_errors() -> None:
    names = []
    for path, item in document()["paths"].items():
        for operation in item.values():
            names.append(operation["operationId"])
            assert operation["description"], path
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"], path
    assert len(names) == len(set(names))
    verbs = {name.partition("-")[0] for name in names}
    of_nodes, of_groups = {"cordon", "uncordon", "drain", "audit"}, {"submit", "cancel", "hold", "release"}
    assert (
        verbs
        <= {"get", "list", "create", "update", "put", "apply", "delete", "revoke", "check"}
        | of_nodes
        | of_groups
    )


def test_requests_refuse_unknown_fields() -> None:
    schemas = document()["components"]["schemas"]
    requests = [name for name in schemas if name.endswith(("Request", "Patch"))]
    assert len(requests) >= 8
    for name in requests:
        assert schemas[name]["additionalProperties"] is False, name


@dataclass(frozen=True)
class Site:
    """A running API over real servers, with a few things in it, and the configuration of the tests."""

    url: str
    config: Path
    served: Served


@pytest.fixture(scope="module")
def site(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    data = tmp_path_factory.mktemp("contract")
    with databases.migrated() as database_url:
        servers.empty_inventory(inventory_server)
        with serving(database_url=database_url, redis_url=inventory_server.url, data=data) as served:
            group_id = _fill(served.url, database_url, inventory_server.url)
            config = data / "schemathesis.toml"
            config.write_text((ROOT / "schemathesis.toml").read_text() + _of_a_real_group(group_id))
            yield Site(served.url, config, served)


def _fill(url: str, database_url: str, redis_url: str) -> str:
    """A node, a ledger, and a group of three tasks of which two are admitted. Its public id."""
    engine = make_engine(database_url)
    with engine.begin() as conn:
        add_nodes(conn, add_pool(conn), {"n1": (2, "H100-80GB")})
    engine.dispose()
    body = {"name": "g", "scheduling": "independent", "members": 3, "gpus": 1, "command": ["true"]}
    made = httpx2.post(f"{url}/v1/groups", json=body, headers={"Authorization": f"Bearer {KEY}"})
    assert made.status_code == 201, made.text
    with make_client(redis_url) as redis:
        leader = Leader(
            database_url, redis, clock=SystemClock(), settings=Settings(database_url=database_url), name="w1"
        )
        assert leader.run_cycle().admitted == 2
        leader.close()
    return str(made.json()["id"])


def _of_a_real_group(group_id: str) -> str:
    """Reading a group that is there reaches more than reading one that is not."""
    reads = ("get-group", "get-position", "get-reasons", "list-events", "list-members", "get-member")
    names = "".join(f'  "{name}",\n' for name in reads)
    return (
        f"\n[[operations]]\ninclude-operation-id = [\n{names}]\n"
        f'parameters = {{ "path.group_id" = "{group_id}" }}\n'
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(
            [
                "--phases=coverage,fuzzing",
                "--max-examples=10",
                "--exclude-operation-id=submit-group",
                "--exclude-operation-id=submit-batch",
            ],
            id="all but submits",
        ),
        # Their schemas are so rich that covering each combination takes a minute.
        pytest.param(
            [
                "--phases=fuzzing",
                "--max-examples=40",
                "--include-operation-id=submit-group",
                "--include-operation-id=submit-batch",
            ],
            id="submits",
        ),
    ],
)
def test_the_api_does_what_its_description_says(site: Site, chosen: list[str]) -> None:
    ran = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            f"--config-file={site.config}",
            "run",
            ROOT / "openapi" / "openapi.json",
            f"--url={site.url}",
            f"--header=Authorization: Bearer {KEY}",
            "--checks=all",
            "--seed=1",
            "--no-color",
            "--request-timeout=10",
            *chosen,
        ],
        cwd=site.config.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert not site.served.lines_of("unhandled_error")
    assert not site.served.lines_of("value_refused_by_postgresql")
