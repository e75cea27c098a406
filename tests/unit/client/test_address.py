"""Where the server is and with which key, from the environment and the data folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.client import Client
from service.client.address import DEFAULT_URL, Address, find_address, find_data_folder
from service.client.errors import AddressWrong


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


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2:9999",
        "http://127.0.0.1:9998",
        "https://127.0.0.1:9999",
        "http://127.0.0.1",
        "http://elsewhere.test:9999",
    ],
)
def test_the_key_of_the_folder_goes_to_no_other_server(data: Path, url: str) -> None:
    assert find_address({"MUSTER_API_KEY": ""}, url=url, data=data).key is None
    assert find_address({"MUSTER_URL": url}, data=data).key is None
    assert find_address({"MUSTER_API_KEY": "mine"}, url=url, data=data).key == "mine"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9999@elsewhere.test", "http://me:hush@[::1"])
def test_an_address_has_no_user_and_its_password_is_not_repeated(data: Path, url: str) -> None:
    with pytest.raises(AddressWrong, match="no user and no password") as caught:
        find_address({}, url=url, data=data)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9999", "http://127.0.0.1:9999/", "http://localhost:9999"])
def test_the_stack_of_the_folder_may_be_named(data: Path, url: str) -> None:
    assert find_address({}, url=url, data=data).key == "from-the-folder"


def test_without_a_running_stack_its_key_stays_here(data: Path) -> None:
    (data / "server.url").unlink()
    address = find_address({}, data=data)
    assert (address.url, address.key) == (DEFAULT_URL, None)


@pytest.mark.parametrize(
    "url", ["http://[::1", "127.0.0.1:8420", "ftp://here", "http://", "http://a:99999", "http://a\nb", "\x00"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(AddressWrong, match="is not the address of a server"):
        Address(url)


def test_an_address_that_only_the_library_refuses_is_refused_too() -> None:
    with pytest.raises(AddressWrong, match="is not the address of a server"):
        Client(Address("http://a..b\u00ad\u2024\uff0f"))


@pytest.mark.parametrize("key", ["\u00e9t\u00e9-key", "two\nlines", "a\rb", "a\x00"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(AddressWrong) as caught:
        Address("http://here", key)
    assert key not in str(caught.value)
