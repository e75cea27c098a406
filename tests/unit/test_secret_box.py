from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet, InvalidToken

from service.operations.secret_box import SecretBox, open_box


def test_what_is_sealed_can_be_opened_and_not_be_read(tmp_path: Path) -> None:
    box = open_box(key=None, data=tmp_path)
    sealed = box.seal([{"TOKEN": "VALUE"}, {}])
    assert sealed is not None
    assert b"VALUE" not in sealed
    assert box.open(sealed) == ({"TOKEN": "VALUE"}, {})
    assert open_box(key=None, data=tmp_path).open(sealed) == ({"TOKEN": "VALUE"}, {})
    with pytest.raises(InvalidToken):
        SecretBox(Fernet.generate_key().decode()).open(sealed)


def test_nothing_to_hide_is_not_sealed(tmp_path: Path) -> None:
    box = open_box(key=None, data=tmp_path)
    assert box.seal([{}, {}]) is None
    assert box.open(None) == ()


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda _: open_box(key=None, data=data), range(32)))
    assert len({box.digest(b"x") for box in boxes}) == 1
    assert [path.name for path in data.iterdir()] == ["secret.key"]
    assert stat.S_IMODE((data / "secret.key").stat().st_mode) == 0o600


def test_a_given_key_is_used_and_a_bad_one_is_named(tmp_path: Path) -> None:
    key = Fernet.generate_key().decode()
    box = open_box(key=key, data=tmp_path)
    assert SecretBox(key).open(box.seal([{"A": "1"}])) == ({"A": "1"},)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="MUSTER_SECRET_KEY"):
        open_box(key="short", data=tmp_path)


def test_a_digest_depends_on_the_key() -> None:
    one, two = (SecretBox(Fernet.generate_key().decode()) for _ in range(2))
    assert one.digest(b"x") == one.digest(b"x") != two.digest(b"x")
