"""What every process would refuse is refused before any of them is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.stack import SettingsWrong, Stack, StackOptions


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (StackOptions(data=Path(), nodes="1x1xH100-80GB", levels=",,"), "MUSTER_LEVELS"),
        (StackOptions(data=Path(), nodes="1x1xH100-80GB", pool="a\x01b"), "MUSTER_POOL"),
        (
            StackOptions(data=Path(), nodes="1x1xH100-80GB", environ={"MUSTER_TICK_SECONDS": "-1"}),
            "MUSTER_TICK_SECONDS",
        ),
    ],
)
def test_a_wrong_setting_starts_nothing(tmp_path: Path, options: StackOptions, name: str) -> None:
    data = tmp_path / "data"
    with pytest.raises(SettingsWrong, match=name):
        Stack(StackOptions(**{**vars(options), "data": data})).start()
    assert not data.exists()
