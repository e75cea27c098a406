"""The ratios that a measurement is compared with, and the machine that they are of."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.machine import Machine

PATH = Path(__file__).parent / "ratios.json"


class Ratios(msgspec.Struct, frozen=True, kw_only=True):
    """`ratios` by the name of the gauge; lower is better."""

    machine: Machine
    ratios: dict[str, float]


def write_ratios(ratios: Ratios, path: Path = PATH) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(ratios), indent=2) + b"\n")


def read_ratios(path: Path = PATH) -> Ratios:
    return msgspec.json.decode(path.read_bytes(), type=Ratios, strict=True)
