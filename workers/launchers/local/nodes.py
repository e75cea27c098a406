"""Declared nodes: a laptop, or one machine shown as several, for trials without GPUs.

`COUNTxGPUSxMODEL[:cpus=N,memory=NGiB,label=NAME=VALUE]`, several separated by commas or spaces:

    1x8xH100-80GB
    2x8xA100-40GB:cpus=96,memory=1024GiB,label=rack=r1 1x0:cpus=16,memory=64
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from workers.launchers.base import DeviceReport, NodeReport

GRAMMAR = "COUNTxGPUSxMODEL[:cpus=N,memory=NGiB,label=NAME=VALUE]"
_CPUS_PER_GPU = 16
_GIB_PER_GPU = 128
_MOST = 100_000
_SHAPE = re.compile(r"(?P<count>\d+)x(?P<gpus>\d+)(?:x(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*))?")
_MEMORY_SUFFIX = re.compile(r"-(\d+)GB$")


@dataclass(slots=True)
class _Spec:
    text: str
    count: int
    gpus: int
    model: str
    cpus: Decimal | None = None
    memory_gib: Decimal | None = None
    labels: dict[str, str] = field(default_factory=dict)


def offer_nodes(declared: str | None) -> Callable[[], Sequence[NodeReport]]:
    """Tell what a local launcher serves: the declared nodes, else this machine's GPUs.

    Raises ValueError if the declaration is wrong, NvmlMissing if nothing is declared and no GPU is found.
    """
    if declared:
        nodes = parse_nodes(declared)
        return lambda: nodes
    from workers.launchers.local.nvml import NvmlNodes

    return NvmlNodes()


def parse_nodes(text: str) -> list[NodeReport]:
    """Read declared nodes, named node-1, node-2 and so on. ValueError says what is wrong with which part."""
    specs: list[_Spec] = []
    for shape, attributes in _split(text):
        if shape is not None:
            specs.append(_parse_shape(shape))
        elif not specs:
            raise ValueError(f"nodes: {attributes[0]!r} stands before any node; write {GRAMMAR}")
        for attribute in attributes:
            _add_attribute(specs[-1], attribute)
    if not specs:
        raise ValueError(f"nodes: nothing is declared; write {GRAMMAR}")
    if sum(spec.count for spec in specs) > _MOST:
        raise ValueError(f"nodes: more than {_MOST} nodes are declared")
    one_of_each = [spec for spec in specs for _ in range(spec.count)]
    return [_make_node(spec, f"node-{number}") for number, spec in enumerate(one_of_each, start=1)]


def model_memory_mib(model: str) -> int:
    """Read the memory from a model's name, such as 80 GiB from H100-80GB; 0 if it does not say."""
    found = _MEMORY_SUFFIX.search(model)
    return int(found[1]) * 1024 if found else 0


def _split(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """A comma parts attributes and nodes alike: what begins like a node is one."""
    for part in re.split(r"[,\s]+", text.strip(", \t\n")):
        shape, colon, attribute = part.partition(":")
        if "=" in shape:
            yield None, [part]
        elif shape:
            yield shape, [attribute] if colon else []


def _parse_shape(text: str) -> _Spec:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise ValueError(f"nodes: {text!r} is not of the form {GRAMMAR}")
    count, gpus = int(found["count"]), int(found["gpus"])
    if not 1 <= count <= _MOST:
        raise ValueError(f"nodes: {text!r} must declare 1 to {_MOST} nodes")
    if gpus > 1024:
        raise ValueError(f"nodes: {text!r} has more than 1024 GPUs on a node")
    if gpus and not found["model"]:
        raise ValueError(f"nodes: {text!r} does not name the model of its GPUs, as in {text}xH100-80GB")
    return _Spec(text, count, gpus, found["model"] or "")


def _add_attribute(spec: _Spec, text: str) -> None:
    name, _, value = text.partition("=")
    if name == "cpus":
        spec.cpus = _parse_amount(spec, name, value=value)
    elif name == "memory":
        spec.memory_gib = _parse_amount(spec, name, value=value.removesuffix("GiB"))
    elif name == "label":
        label, has_value, content = value.partition("=")
        if not (label and has_value):
            raise ValueError(f"nodes: {text!r} of {spec.text!r} is not of the form label=NAME=VALUE")
        spec.labels[label] = content
    else:
        raise ValueError(f"nodes: {text!r} of {spec.text!r} is none of cpus=, memory= and label=")


def _parse_amount(spec: _Spec, name: str, *, value: str) -> Decimal:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"nodes: {name}={value} of {spec.text!r} is not a number") from None
    if not (amount.is_finite() and 0 <= amount <= 1_000_000):
        raise ValueError(f"nodes: {name}={value} of {spec.text!r} is not between 0 and 1000000")
    return amount


def _make_node(spec: _Spec, name: str) -> NodeReport:
    if not spec.gpus and (spec.cpus is None or spec.memory_gib is None):
        raise ValueError(f"nodes: {spec.text!r} has no GPUs, so say its cpus= and memory=")
    cpus = spec.cpus if spec.cpus is not None else Decimal(spec.gpus * _CPUS_PER_GPU)
    memory = spec.memory_gib if spec.memory_gib is not None else Decimal(spec.gpus * _GIB_PER_GPU)
    memory_mib = model_memory_mib(spec.model)
    return NodeReport(
        name=name,
        cpus_milli=int(cpus * 1000),
        memory_mib=int(memory * 1024),
        labels=dict(spec.labels),
        devices=tuple(
            DeviceReport(index=index, model=spec.model, memory_mib=memory_mib) for index in range(spec.gpus)
        ),
    )
