"""Declared nodes, and the names of GPUs."""

from __future__ import annotations

import pytest

from workers.launchers.local.nodes import offer_nodes, parse_nodes
from workers.launchers.local.nvml import NvmlMissing, NvmlNodes, name_model


def has_nvml() -> bool:
    try:
        NvmlNodes()
    except NvmlMissing:
        return False
    return True


def test_a_node_is_declared_by_its_gpus() -> None:
    [node] = parse_nodes("1x8xH100-80GB")
    assert (node.name, node.cpus_milli, node.memory_mib) == ("node-1", 128_000, 1024 * 1024)
    assert [(device.index, device.model, device.memory_mib) for device in node.devices] == [
        (index, "H100-80GB", 80 * 1024) for index in range(8)
    ]
    assert (node.is_ready, node.labels) == (True, {})


@pytest.mark.parametrize(
    "text", ["2x1xT4-16GB,1x4xH100-80GB", "2x1xT4-16GB 1x4xH100-80GB", " 2x1xT4-16GB ,\n1x4xH100-80GB "]
)
def test_several_are_numbered_through(text: str) -> None:
    nodes = parse_nodes(text)
    assert [(node.name, len(node.devices)) for node in nodes] == [("node-1", 1), ("node-2", 1), ("node-3", 4)]


def test_what_a_node_has_besides() -> None:
    first, second, third = parse_nodes(
        "1x2xA100-40GB:cpus=12.5,memory=64GiB,label=rack=r1,label=zone=a=b 1x0:cpus=16,memory=64,"
        " 1x1xGH200:memory=0.5"
    )
    assert (first.cpus_milli, first.memory_mib) == (12_500, 64 * 1024)
    assert first.labels == {"rack": "r1", "zone": "a=b"}
    assert (second.devices, second.cpus_milli, second.memory_mib) == ((), 16_000, 64 * 1024)
    assert (third.devices[0].memory_mib, third.cpus_milli, third.memory_mib) == (0, 16_000, 512)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "nothing is declared"),
        (" , ", "nothing is declared"),
        ("8xH100", "'8xH100' is not of the form COUNTxGPUSxMODEL"),
        ("1x8", "'1x8' does not name the model of its GPUs, as in 1x8xH100-80GB"),
        ("0x8xH100", "'0x8xH100' must declare 1 to"),
        ("1x9999xH100", "more than 1024 GPUs"),
        ("-1x8xH100", "'-1x8xH100' is not of the form"),
        ("60000x1xA,60000x1xA", "more than 100000 nodes"),
        ("1x0", "'1x0' has no GPUs, so say its cpus= and memory="),
        ("1x0:cpus=4", "so say its cpus= and memory="),
        ("cpus=4,1x8xH100", "'cpus=4' stands before any node"),
        ("1x8xH100:cpus=many", "cpus=many of '1x8xH100' is not a number"),
        ("1x8xH100:memory=-1", "memory=-1 of '1x8xH100' is not between"),
        ("1x8xH100:memory=NaN", "memory=NaN of '1x8xH100' is not between"),
        ("1x8xH100:cpus=1e999", "is not between"),
        ("1x8xH100:memory=4TB", "memory=4TB of '1x8xH100' is not a number"),
        ("1x8xH100:label=rack", "'label=rack' of '1x8xH100' is not of the form label=NAME=VALUE"),
        ("1x8xH100:gpus=4", "'gpus=4' of '1x8xH100' is none of cpus=, memory= and label="),
        ("1x8xH100:", "is none of"),
    ],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^nodes: ") as failed:
        parse_nodes(text)
    assert told in str(failed.value)


@pytest.mark.parametrize(
    ("name", "memory_mib", "model", "memory_gib"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "H100-80GB", 80),
        ("NVIDIA H100 PCIe", 81559, "H100-80GB", 80),
        ("NVIDIA A100-SXM4-40GB", 40960, "A100-40GB", 40),
        ("NVIDIA L4", 23034, "L4-24GB", 24),
        ("NVIDIA L40S", 46068, "L40S-48GB", 48),
        ("Tesla V100-SXM2-32GB", 32768, "V100-32GB", 32),
        ("NVIDIA H200", 143771, "H200-141GB", 141),
        ("NVIDIA GH200 480GB", 97871, "GH200-96GB", 96),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX-4090-24GB", 24),
        ("NVIDIA RTX A6000", 49140, "RTX-A6000-48GB", 48),
        ("NVIDIA TITAN V", 12288, "TITAN-V-12GB", 12),
    ],
)
def test_a_gpu_is_named_as_people_ask_for_it(name: str, memory_mib: int, model: str, memory_gib: int) -> None:
    assert name_model(name, memory_mib) == (model, memory_gib)


def test_declared_nodes_come_before_those_of_the_machine() -> None:
    assert [node.name for node in offer_nodes("2x1xT4-16GB")()] == ["node-1", "node-2"]


@pytest.mark.skipif(has_nvml(), reason="this machine has GPUs")
def test_a_machine_without_nvml_says_so() -> None:
    with pytest.raises(NvmlMissing, match=r"^NVML finds no GPU here: "):
        offer_nodes(None)
