"""The machines of a simulated cluster: which pool serves them, whether they are up, and who answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workers.launchers.base import LauncherUnreachable, NodeReport


class Nodes:
    """Every node of every pool. A node that comes up again has booted anew."""

    def __init__(self, reports_by_pool: Mapping[str, Sequence[NodeReport]]) -> None:
        self._pool_of = {node.name: pool for pool, reports in reports_by_pool.items() for node in reports}
        self._reports = {
            node.name: _booted(node, 1) for reports in reports_by_pool.values() for node in reports
        }
        self._boots = dict.fromkeys(self._reports, 1)
        self._unreachable: set[str] = set()

    def reports(self, pool: str) -> list[NodeReport]:
        return [node for name, node in self._reports.items() if self._pool_of[name] == pool]

    def refusal_of(self, pool: str, name: str) -> str | None:
        """Why nothing can start there, if nothing can."""
        node = self._reports.get(name)
        if node is None or self._pool_of[name] != pool:
            return f"there is no node {name}"
        return None if node.is_ready else f"node {name} is down"

    def take_down(self, name: str) -> None:
        self._reports[name] = replace(self._reports[name], is_ready=False)

    def boot(self, name: str) -> None:
        self._boots[name] += 1
        self._reports[name] = _booted(self._reports[name], self._boots[name])

    def set_reachable(self, pool: str, *, is_reachable: bool) -> None:
        if is_reachable:
            self._unreachable.discard(pool)
        else:
            self._unreachable.add(pool)

    def require_reachable(self, pool: str) -> None:
        """Raises LauncherUnreachable if the pool's launcher does not answer."""
        if pool in self._unreachable:
            raise LauncherUnreachable(f"the simulated launcher of pool {pool} is out of reach")


def _booted(node: NodeReport, boot: int) -> NodeReport:
    return replace(node, is_ready=True, boot_id=f"{node.name}-{boot}")
