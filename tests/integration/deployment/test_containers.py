"""Every service of docker-compose.yml as a process of this machine: started in the file's order, found well
by the file's own health checks, and used over HTTP."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from service.client import Client
from service.client.address import Address
from tests import servers
from tests.e2e.stacks import assert_clean, wait_status
from tests.integration.deployment.compose import FILLED_IN, LASTING, SERVICES
from tests.integration.deployment.containers import Container
from tests.servers import Databases
from workers.embedded.valkey import ValkeyServer

#: One stack at a time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.xdist_group("stack")]

#: A process that starts while others do has to be healthy by then.
_START_SECONDS = 60.0
#: The last sign of life grows too old, then so many checks fail; each may take its timeout.
_NOTICE_SECONDS = 60.0
#: Half of what is usual, so that half as long is waited for what is to be noticed.
_HEALTH_SECONDS = 5


@dataclass
class Composed:
    """All that was started."""

    containers: dict[str, Container]
    url: str
    #: What a further container needs.
    volume: Path
    folder: Path
    replaced: dict[str, str]

    def client(self) -> Client:
        return Client(Address(self.url, FILLED_IN["MUSTER_API_KEY"]))

    def one_more(self, service: str) -> Container:
        return Container(
            service, volume=self.volume, own=self.folder / f"{service}-2", replaced=self.replaced
        )


@pytest.fixture(scope="module")
def composed(
    databases: Databases, inventory_server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Composed]:
    """All tests use it, one after the other; the last one stops it."""
    folder = tmp_path_factory.mktemp("composed")
    servers.empty_inventory(inventory_server)
    with databases.empty() as database_url:
        yield from _composed(folder, database_url=database_url, redis_url=inventory_server.url)


def _composed(folder: Path, *, database_url: str, redis_url: str) -> Iterator[Composed]:
    volume = folder / "volume"
    volume.mkdir(mode=0o700)
    port = _free_port()
    replaced = {
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_REDIS_URL": redis_url,
        # In a container it is the container's address; here it would be everybody's.
        "MUSTER_HOST": "127.0.0.1",
        "MUSTER_PORT": str(port),
        "MUSTER_HEALTH_SECONDS": str(_HEALTH_SECONDS),
    }
    with ExitStack() as stack:

        def start(service: str) -> Container:
            own = folder / service
            return stack.enter_context(Container(service, volume=volume, own=own, replaced=replaced))

        migrate = start("migrate")
        assert migrate.wait_end(seconds=60) == 0, migrate.output
        containers = {service: start(service) for service in LASTING}
        for container in containers.values():
            container.wait_health("healthy", seconds=_START_SECONDS)
        yield Composed(containers, f"http://127.0.0.1:{port}", volume, folder, replaced)


def _free_port() -> int:
    """Not the file's: on this machine somebody else may serve there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def push_through(composed: Composed, name: str) -> None:
    """A group from the first request to Succeeded, and books that agree."""
    with composed.client() as client:
        command = ["sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"']
        group = client.submit({"name": name, "members": 4, "gpus": 2, "command": command})
        wait_status(client, group.id, "Succeeded")
        assert_clean(client)


@pytest.mark.parametrize("frozen", [("worker", "ticker"), ("api", "dispatcher")])
def test_a_frozen_process_is_unhealthy_and_the_others_are_not(
    composed: Composed, frozen: tuple[str, ...]
) -> None:
    others = set(LASTING) - set(frozen)
    for service in frozen:
        composed.containers[service].freeze()
    try:
        for service in frozen:
            container = composed.containers[service]
            container.wait_health("unhealthy", seconds=_NOTICE_SECONDS)
            told = "no Muster server answers" if service == "api" else "no sign of life"
            # On a busy machine the check itself may be cut off by its timeout.
            assert told in container.lines[-1] or "no answer within" in container.lines[-1]
        assert {composed.containers[service].health for service in others} == {"healthy"}
    finally:
        for service in frozen:
            composed.containers[service].thaw()
    for service in frozen:
        composed.containers[service].wait_health("healthy", seconds=_NOTICE_SECONDS)
    push_through(composed, "thawed")


def test_a_process_whose_loop_hangs_is_unhealthy_though_it_lives(composed: Composed) -> None:
    """It waits for a lock that nobody gives back; its other threads go on."""
    engine = create_engine(composed.replaced["MUSTER_DATABASE_URL"])
    dispatcher = composed.containers["dispatcher"]
    try:
        with engine.begin() as conn:
            conn.execute(text("LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE"))
            dispatcher.wait_health("unhealthy", seconds=_NOTICE_SECONDS)
        dispatcher.wait_health("healthy", seconds=_NOTICE_SECONDS)
    finally:
        engine.dispose()
    assert composed.containers["ticker"].health == "healthy"
    push_through(composed, "after")


def test_each_lasting_service_has_a_health_check_and_a_grace() -> None:
    for service in LASTING:
        assert SERVICES[service]["healthcheck"]["test"] == ["CMD", "muster", "health", service]
        assert SERVICES[service]["stop_grace_period"]


def test_a_group_succeeds_and_every_container_stops_within_its_grace(composed: Composed) -> None:
    assert set(composed.containers) == set(LASTING)
    push_through(composed, "last")
    # A second one of a kind stands by, and is well as that.
    with composed.one_more("worker") as standby:
        standby.wait_health("healthy", seconds=_START_SECONDS)
        assert standby.lines[-1].endswith("stands by")
        assert "leads" in composed.containers["worker"].lines[-1]
        assert standby.stop() == 0
    for service, container in composed.containers.items():
        # The HTTP server ends by the signal itself, when it has finished its requests.
        assert container.stop() in {0, -signal.SIGTERM}, (service, container.output[-2000:])
