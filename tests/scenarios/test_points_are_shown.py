"""The page that says which scenario shows which point of the policy names what is there, and all of ours."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenarios.conftest import OWN_FILES
from tests.scenarios.scenario import files_in, read

PAGE = Path(__file__).parent / "README.md"


def test_each_link_leads_to_the_scenario_of_its_number() -> None:
    links = re.findall(r"\[(\d{3})\]\((files/[^)]+)\)", PAGE.read_text())
    assert links
    for number, path in links:
        assert read(PAGE.parent / path).id == number


def test_each_scenario_that_was_written_for_a_page_of_ours_is_named() -> None:
    page = PAGE.read_text()
    ours = [path for path in files_in(OWN_FILES) if read(path).body["source"].startswith("docs/policy")]
    assert ours
    assert [path.name for path in ours if f"files/{path.name}" not in page] == []
