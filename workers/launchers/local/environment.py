"""The environment of a member: nothing of the service's own but where programs lie."""

from __future__ import annotations

import os
from collections.abc import Mapping

from workers.launchers.base import MemberLaunch
from workers.launchers.local.processes import MARK, OWNER

_DEFAULTS = {"PATH": os.defpath, "HOME": "/", "LANG": "C.UTF-8"}
_PASSED_ON = ("PATH", "HOME", "LANG", "USER", "LOGNAME")


def build_environment(
    member: MemberLaunch, *, owner: str, master_port: int, own: Mapping[str, str]
) -> dict[str, str]:
    """Build all variables of a member. `own` is the service's environment, `owner` names the launcher.

    The group's variables come before the service's, its secrets before those, and what tells a member
    who it is before all. The mark is in every process that the member makes (X4).
    """
    return {
        **_DEFAULTS,
        **{name: own[name] for name in _PASSED_ON if name in own},
        **member.env,
        **member.secrets,
        MARK: str(member.key),
        OWNER: owner,
        "MUSTER_GROUP": member.group_name,
        "MUSTER_ROLE": member.role,
        # Which of the group it is, also where it is a world of its own.
        "MUSTER_INDEX": str(member.key.member),
        "MUSTER_COUNT": str(member.member_count),
        "RANK": str(member.rank),
        "WORLD_SIZE": str(member.world_size),
        "LOCAL_RANK": str(member.local_rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(master_port),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, member.devices)),
        # Devices are counted as NVML does; without this CUDA counts the fastest first.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
