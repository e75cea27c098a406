"""What the dispatcher of a stack is told to serve, checked before anything is started."""

from __future__ import annotations

import os

import psutil

from workers.launchers.local.nodes import parse_nodes
from workers.launchers.local.nvml import NvmlMissing, NvmlNodes
from workers.stack.errors import NodesWrong


def declare_nodes(nodes: str, *, launcher: str) -> str:
    """The setting `nodes` of the dispatcher: what was declared, nothing where NVML shows GPUs, else
    this machine with its CPUs and memory. Raises NodesWrong."""
    if nodes:
        try:
            parse_nodes(nodes)
        except ValueError as error:
            raise NodesWrong(str(error)) from None
        return nodes
    if launcher != "local":
        raise NodesWrong(f"the {launcher} launcher has no machine of its own: declare nodes with --nodes")
    try:
        NvmlNodes()
    except NvmlMissing:
        memory_gib = psutil.virtual_memory().total >> 30
        return f"1x0:cpus={os.cpu_count() or 1},memory={max(memory_gib, 1)}GiB"
    return ""
