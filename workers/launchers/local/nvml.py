"""The GPUs of this machine through NVML, NVIDIA's own library.

Not seen to hold on real hardware: no GPU was at hand where this was written. It keeps to NVML's
reference, and was run only where the library is missing.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psutil
import pynvml

from workers.launchers.base import DeviceReport, LauncherUnreachable, NodeReport

_KEPT_SECONDS = 2.0
_UNHEALTHY = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
_NAMED_SIZE = re.compile(r"(\d+) ?GB\b")
# The letters and digits of the chip (H100, L40S, A10G), or a workstation's "RTX 4090", "RTX A6000".
_FAMILY = re.compile(r"\b(?:[RG]TX A?\d+(?: Ti)?|[A-Z]{1,3}\d+[A-Z]?)\b")
# What is sold as so many GB shows as a little less, or a little more, in NVML.
_SIZES_GB = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 120, 141, 144, 180, 192, 288)


class NvmlMissing(Exception):
    """There is no NVML library, or no driver answers it."""


class NvmlNodes:
    """Tells what this machine offers, as one node under its host name.

    Asks NVML every two seconds at most.
    """

    def __init__(self) -> None:
        """Raises NvmlMissing."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlMissing(f"NVML finds no GPU here: {error}") from error
        self._seen: dict[int, DeviceReport] = {}
        self._asked_at = 0.0
        self._node = self._ask()

    def __call__(self) -> Sequence[NodeReport]:
        """Raises LauncherUnreachable if NVML does not answer any more, as while a driver is replaced."""
        if time.monotonic() - self._asked_at > _KEPT_SECONDS:
            try:
                self._node = self._ask()
            except pynvml.NVMLError as error:
                raise LauncherUnreachable(f"NVML does not answer: {error}") from error
        return [self._node]

    def _ask(self) -> NodeReport:
        self._asked_at = time.monotonic()
        for index in range(pynvml.nvmlDeviceGetCount()):
            if device := _find_device(index, self._seen.get(index)):
                self._seen[index] = device
        return NodeReport(
            name=socket.gethostname(),
            cpus_milli=(os.cpu_count() or 1) * 1000,
            memory_mib=psutil.virtual_memory().total >> 20,
            labels={},
            devices=tuple(self._seen[index] for index in sorted(self._seen)),
        )


def name_model(name: str, memory_mib: int) -> tuple[str, int]:
    """Name a GPU as a flavor, with its memory in GiB: "NVIDIA L4" is L4-24GB, 24.

    The memory is what the GPU is sold with, since that is what people ask for: NVML shows an H100 of
    80 GB with 79.6 GiB.
    """
    shown = memory_mib / 1024
    size = min(_SIZES_GB, key=lambda each: abs(each - shown))
    if (found := _NAMED_SIZE.search(name)) and abs(int(found[1]) - shown) < shown / 10:
        size = int(found[1])
    family = _FAMILY.search(name)
    words = family[0] if family else name.removeprefix("NVIDIA ")
    return f"{'-'.join(words.split())}-{size}GB", size


def _find_device(index: int, seen: DeviceReport | None) -> DeviceReport | None:
    """Ask for one device. One that fell off the bus is what it was, and unhealthy."""
    try:
        return _ask_device(index)
    except pynvml.NVMLError as error:
        if error.value not in _UNHEALTHY:
            raise
        return replace(seen, is_healthy=False) if seen else None


def _ask_device(index: int) -> DeviceReport:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory_mib = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20
    model, memory_gib = name_model(_text(pynvml.nvmlDeviceGetName(handle)), memory_mib)
    return DeviceReport(
        index=index,
        model=model,
        memory_mib=memory_gib * 1024,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        is_healthy=not _has_bad_memory(handle),
    )


def _has_bad_memory(handle: Any) -> bool:
    """A row that could not be remapped: NVIDIA's rule for replacing a GPU. A pending remap is none."""
    try:
        _, _, _, has_failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    except pynvml.NVMLError_NotSupported:  # before Ampere, or cut into MIG instances
        return False
    return bool(has_failed)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
