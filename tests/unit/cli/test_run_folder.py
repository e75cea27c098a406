"""Where the command of `muster run` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.commands.run import where_it_runs

HERE, ELSEWHERE = "http://127.0.0.1:8420", "https://muster.example:443"


@pytest.mark.parametrize(
    ("given", "url", "runs_in"),
    [
        (None, HERE, str(Path.cwd())),
        ("sub", HERE, str(Path.cwd() / "sub")),
        ("/data", HERE, "/data"),
        (None, ELSEWHERE, None),
        ("sub", ELSEWHERE, "sub"),
        ("/data", ELSEWHERE, "/data"),
    ],
)
def test_a_path_means_this_folder_only_on_this_machine(
    given: str | None, url: str, runs_in: str | None
) -> None:
    assert where_it_runs(given, url=url) == runs_in
