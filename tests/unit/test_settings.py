"""Settings: what cannot be meant is refused, with the name of its variable and without its value."""

from __future__ import annotations

import msgspec
import pytest

from service.settings import Settings, settings_from


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_PORT", "99999"),
        ("MUSTER_PORT", "-1"),
        ("MUSTER_API_POOL_SIZE", "0"),
        ("MUSTER_TICK_SECONDS", "-1"),
        ("MUSTER_TICK_SECONDS", "nan"),
        ("MUSTER_LEASE_SECONDS", "inf"),
        ("MUSTER_LEASE_SECONDS", "0"),
        ("MUSTER_KEY_REQUESTS_PER_SECOND", "nan"),
        ("MUSTER_LOG_LIMIT_BYTES", "-1"),
        ("MUSTER_DISPATCH_BACKOFF_SECONDS", "-1"),
        ("MUSTER_RETENTION_DAYS", "99999999999"),
        ("MUSTER_LOG_LEVEL", "FOO"),
        ("MUSTER_LOG_FORMAT", "xml"),
        ("MUSTER_LAUNCHER", "elsewhere"),
        ("MUSTER_LEVELS", ",,"),
        ("MUSTER_LEVELS", "rack,,host"),
        ("MUSTER_POOL", ""),
        ("MUSTER_POOL", "a\x01b"),
        ("MUSTER_POOL", "a\n"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=rf"^a setting is wrong: .* - {name}$"):
        settings_from({name: value})


def test_a_wrong_value_is_not_told() -> None:
    with pytest.raises(ValueError, match="MUSTER_PORT") as refused:
        settings_from({"MUSTER_PORT": "hunter2"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_LOG_LEVEL", "debug"),
        ("MUSTER_LEVELS", "block, rack,host"),
        ("MUSTER_KEY_REQUESTS_PER_SECOND", "0"),
        ("MUSTER_RETENTION_DAYS", "0"),
        ("MUSTER_PORT", "0"),
    ],
)
def test_what_can_be_meant_is_taken(name: str, value: str) -> None:
    field = name.removeprefix("MUSTER_").lower()
    assert str(getattr(settings_from({name: value}), field)).removesuffix(".0") == value


def test_each_default_is_one_that_might_be_given() -> None:
    defaults = {
        f"MUSTER_{name.upper()}": str(value)
        for name, value in msgspec.structs.asdict(Settings()).items()
        if value is not None
    }
    assert settings_from(defaults) == Settings()
