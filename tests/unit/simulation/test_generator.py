"""Logs that are made up: the same for a seed, and as their pages say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import median

import pytest
import yaml

from simulation.generator import mixed, tenants
from simulation.generator.draws import rounded_limit
from simulation.generator.limits import with_limits
from simulation.generator.mixed import mixed_log
from simulation.generator.tenants import in_daily_rhythm, tenants_log
from simulation.generator.writing import SPEC, write_csv
from simulation.logs.csv import read_csv
from simulation.logs.log import Log
from simulation.logs.spec import spec_of


def _load(log: Log, gpus: int) -> float:
    """Of what the GPUs could do from the first submission to the last."""
    span = (log.jobs[-1].submitted_at - log.jobs[0].submitted_at).total_seconds()
    return sum(job.gpus * job.runtime_seconds for job in log.jobs) / (gpus * span)


def test_a_seed_is_a_log() -> None:
    assert mixed_log(1, jobs=200).jobs == mixed_log(1, jobs=200).jobs
    assert mixed_log(1, jobs=200).jobs != mixed_log(2, jobs=200).jobs
    assert tenants_log(1, jobs=200).jobs == tenants_log(1, jobs=200).jobs


@pytest.mark.parametrize("load", [0.9, 1.0])
def test_a_mixed_log_is_as_its_page_says(load: float) -> None:
    log = mixed_log(3, jobs=15_000, load=load)
    assert _load(log, 512) == pytest.approx(load, rel=0.05)
    sizes = Counter(job.gpus for job in log.jobs)
    assert {size: count / 15_000 for size, count in sizes.items()} == pytest.approx(mixed.SIZES, abs=0.012)
    runtimes = [job.runtime_seconds for job in log.jobs]
    assert median(runtimes) == pytest.approx(600, rel=0.08)
    assert min(runtimes) >= 30
    assert max(runtimes) <= 86_400
    for job in log.jobs:
        assert job.time_limit_seconds is not None
        assert job.runtime_seconds <= job.time_limit_seconds <= rounded_limit(5 * job.runtime_seconds)


def test_a_log_of_tenants_is_as_its_page_says() -> None:
    log = tenants_log(2, jobs=8_000, tenants=4)
    by_tenant = Counter(job.tenant for job in log.jobs)
    expected = {f"team-{k}": 1 / k / (1 + 1 / 2 + 1 / 3 + 1 / 4) for k in range(1, 5)}
    assert {name: count / 8_000 for name, count in by_tenant.items()} == pytest.approx(expected, abs=0.02)
    assert median(job.runtime_seconds for job in log.jobs) == pytest.approx(16_800, rel=0.12)
    without = sum(job.time_limit_seconds is None for job in log.jobs) / 8_000
    assert without == pytest.approx(tenants.WITHOUT_LIMIT, abs=0.02)
    hours = Counter(job.submitted_at.hour for job in log.jobs)
    busy, calm = (sum(hours[hour] for hour in part) for part in (range(12, 18), range(6)))
    assert 1.9 < busy / calm < 3.2


def test_the_rhythm_of_a_day_keeps_the_order_and_the_days() -> None:
    found = list(in_daily_rhythm([0.0, 1000.0, 40_000.0, 86_400.0, 172_800.0], first=0.0))
    assert found == sorted(found)
    assert [found[0], found[3], found[4]] == pytest.approx([0.0, 86_400.0, 172_800.0], abs=0.01)


def test_limits_for_a_log_that_has_none() -> None:
    assert [rounded_limit(each) for each in (1, 900, 901, 14_400, 50_000, 86_401, 200_000)] == [
        *(900, 900, 3600, 14_400, 86_400, 172_800, 259_200)
    ]
    log = mixed_log(1, jobs=100)
    assert with_limits(log, 1).jobs == with_limits(log, 1).jobs
    assert with_limits(log, 1).jobs != with_limits(log, 2).jobs
    assert "seed 1" in with_limits(log, 1).warnings[-1]


@pytest.mark.parametrize("name", ["made.csv", "made.csv.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    log = tenants_log(5, jobs=300)
    write_csv(log, tmp_path / name)
    read = read_csv(tmp_path / name, spec_of(yaml.safe_load(SPEC)))
    assert list(read.jobs) == list(log.jobs)
    assert not read.left_out
    first = (tmp_path / name).read_bytes()
    write_csv(log, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
