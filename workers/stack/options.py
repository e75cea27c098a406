"""What one stack is made of, and the environment of its processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.settings import Settings, settings_from
from workers.stack.errors import SettingsWrong

#: The only TCP address: nobody but this machine reaches the API.
HOST = "127.0.0.1"
DEFAULT_PORT = 8420


@dataclass(frozen=True, kw_only=True)
class StackOptions:
    """`data` holds everything that outlives the stack. `port` 0 takes a free one. `nodes`, `launcher`,
    `pool` and `levels` are what the settings of the same name say; without `nodes` and without GPUs
    here, one node with the CPUs and the memory of this machine. `environ` is what the processes
    get besides; MUSTER_API_KEY and MUSTER_SECRET_KEY in it are used."""

    data: Path
    port: int = DEFAULT_PORT
    nodes: str = ""
    launcher: str = "local"
    pool: str = "local"
    levels: str = "host"
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def logs(self) -> Path:
        """The folder with one log file for each process."""
        return self.data / "logs" / "service"

    @property
    def records(self) -> Path:
        """The folder with who runs what, so that a killed stack's processes are found."""
        return self.data / "run"

    @property
    def sockets(self) -> Path:
        return self.data / "sockets"

    def environment(self, *, port: int, nodes: str, database_url: str, redis_url: str) -> dict[str, str]:
        """The variables of every process of the stack."""
        return {
            **self.environ,
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_REDIS_URL": redis_url,
            "MUSTER_DATA": str(self.data),
            "MUSTER_HOST": HOST,
            "MUSTER_PORT": str(port),
            "MUSTER_NODES": nodes,
            "MUSTER_LAUNCHER": self.launcher,
            "MUSTER_POOL": self.pool,
            "MUSTER_LEVELS": self.levels,
        }

    def check(self, *, nodes: str) -> None:
        """Raises SettingsWrong for what every process would refuse, before any of them is started."""
        stores = Settings()
        variables = self.environment(
            port=self.port, nodes=nodes, database_url=stores.database_url, redis_url=stores.redis_url
        )
        try:
            settings_from(variables)
        except ValueError as error:
            raise SettingsWrong(str(error)) from None
