"""What a launcher tells each member is what no group may set."""

from __future__ import annotations

from service.domain.group_rules import RESERVED_NAMES, RESERVED_PREFIX
from tests.contract.subjects import member
from workers.launchers.local.environment import build_environment


def test_what_a_launcher_overrides_is_reserved() -> None:
    mine = "of the group"
    told = build_environment(member(("true",)), owner="o", master_port=1, own={})
    overridden = {
        name
        for name in told
        if build_environment(member(("true",), env={name: mine}), owner="o", master_port=1, own={})[name]
        != mine
    }
    assert {name for name in overridden if not name.startswith(RESERVED_PREFIX)} == RESERVED_NAMES
