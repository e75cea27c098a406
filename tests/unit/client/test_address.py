"""Where the server is and with which key, from the environment and the data folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.client.address import DEFAULT_URL, find_address, find_data_folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "admin.key").write_text("from-the-folder\n")
    (tmp_path / "server.url").write_text("http://127.0.0.1:9999\n")
    return tmp_path


def test_nothing_said_and_nothing_there(tmp_path: Path) -> None:
    address = find_address({"MUSTER_DATA": str(tmp_path)})
    assert (address.url, address.key) == (DEFAULT_URL, None)


def test_the_folder_knows(data: Path) -> None:
    address = find_address({"MUSTER_DATA": str(data)})
    assert (address.url, address.key) == ("http://127.0.0.1:9999", "from-the-folder")
    assert find_address({}, data=data) == address


def test_the_environment_knows_better(data: Path) -> None:
    environ = {"MUSTER_DATA": str(data), "MUSTER_URL": "https://there/", "MUSTER_API_KEY": "mine"}
    address = find_address(environ)
    assert (address.url, address.key) == ("https://there", "mine")
    assert find_address(environ, url="http://here").url == "http://here"


def test_a_key_is_not_shown() -> None:
    assert "mine" not in repr(find_address({"MUSTER_API_KEY": "mine", "MUSTER_DATA": "/nonexistent"}))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_files_of_another_user_are_not_believed(data: Path) -> None:
    for name in ("admin.key", "server.url"):
        os.chown(data / name, 65534, 65534)
    address = find_address({"MUSTER_DATA": str(data)})
    assert (address.url, address.key) == (DEFAULT_URL, None)


def test_the_data_folder_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_data_folder({"MUSTER_DATA": "here"}) == tmp_path / "here"
