"""Rows that dispatchers and the leader write, for tests that run without them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

from service.clock import SystemClock
from service.operations.register_nodes import ReportedNode, register_nodes
from service.store.inventory_rows import DeviceRow, NodeValues, ensure_pool


def add_pool(conn: Connection, name: str = "local", *, launcher: str = "simulated") -> int:
    return ensure_pool(conn, name, launcher=launcher, levels=["host"])


def add_nodes(conn: Connection, pool_id: int, nodes: Mapping[str, tuple[int, str]]) -> dict[str, int]:
    """GPUs and their model by name of the node, with 16 CPUs and 128 GiB for each GPU. Ids by name."""
    reports = [_report(name, gpus, model) for name, (gpus, model) in nodes.items()]
    register_nodes(conn, pool_id, reports=reports, now=SystemClock().now())
    rows = conn.execute(text("SELECT name, id FROM nodes WHERE pool_id = :pool_id"), {"pool_id": pool_id})
    return {row.name: row.id for row in rows}


def _report(name: str, gpus: int, model: str) -> ReportedNode:
    return ReportedNode(
        values=NodeValues(
            name=name,
            cpus_milli=16_000 * gpus,
            memory_mib=131_072 * gpus,
            labels={"host": name},
            is_ready=True,
            boot_id="boot-1",
        ),
        devices=tuple(
            DeviceRow(device=index, model=model, memory_mib=81_920, uuid=None, is_healthy=True)
            for index in range(gpus)
        ),
    )
