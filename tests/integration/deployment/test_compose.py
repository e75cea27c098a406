"""docker-compose.yml without a Docker engine: what it says, and its one-shot migration for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from service.settings import Settings, settings_from
from tests.integration.deployment.compose import COMPOSE, OURS, ROOT, SERVICES, environment


def test_every_process_of_muster_is_a_service_of_one_image() -> None:
    assert {name for name, service in SERVICES.items() if service["image"] == "muster:dev"} == set(OURS)
    assert [SERVICES[name]["command"] for name in OURS] == [[name] for name in OURS]


@pytest.mark.parametrize("name", OURS)
def test_its_environment_is_one_that_settings_know(name: str) -> None:
    known = {f"MUSTER_{field.upper()}" for field in Settings.__struct_fields__}
    assert environment(name).keys() <= known
    settings = settings_from(environment(name))
    assert settings.database_url == "postgresql+psycopg://muster:pw@postgres:5432/muster"
    assert settings.redis_url == "redis://redis:6379/0"


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_nothing_starts_before_the_schema_is_there(name: str) -> None:
    after = SERVICES[name]["depends_on"]
    assert after["migrate"]["condition"] == "service_completed_successfully"
    assert after["postgres"]["condition"] == after["redis"]["condition"] == "service_healthy"


def test_it_is_closed_to_others_and_holds_no_secret() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(str(port).startswith("127.0.0.1:") for port in ports)
    assert all("${" in line for line in text.splitlines() if re.search(r"(PASSWORD|_KEY):", line))
    assert "USER 10001:10001" in (ROOT / "Dockerfile").read_text()


def test_images_are_pinned_and_data_lies_in_named_volumes() -> None:
    for name in ("postgres", "redis"):
        assert re.fullmatch(rf"{name}:\d+\.\d+", SERVICES[name]["image"])
        [volume] = SERVICES[name]["volumes"]
        assert volume.split(":")[0] in COMPOSE["volumes"]
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_the_migration_service_brings_an_empty_database_to_the_newest_schema(
    empty_database_url: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "service.cli", *SERVICES["migrate"]["command"]]
    env = environment("migrate") | {"MUSTER_DATABASE_URL": empty_database_url, "MUSTER_DATA": str(tmp_path)}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=env | {"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    engine = create_engine(empty_database_url)
    assert "units" in inspect(engine).get_table_names()
    engine.dispose()
