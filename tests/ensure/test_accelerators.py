"""What a node offers to pods, and how a share of it is sized (cases 48, 49)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instantstart.base import quantities
from instantstart.ensure.capacity import accelerators
from instantstart.ensure.capacity.accelerators import Offer, Share, size
from instantstart.ensure.capacity.nodes import EFA, GPU, GROUP, INSTANCE_TYPE
from instantstart.kube import shapes

GIB = 1024**3
P5 = Offer("ml.p5.48xlarge", "nodes", 190_000, 1900 * GIB, gpus=8, efa=32)
TRN = Offer("ml.trn1.32xlarge", "nodes", 127_000, 480 * GIB, neuron_devices=16, neuron_cores=32, efa=8)
CPU = Offer("ml.m5.2xlarge", "nodes", 7_900, 28 * GIB)


def a_node(name: str, memory: str = "2000Gi", ready: str = "True", more: dict[str, str] | None = None, **devices: str) -> shapes.Node:
    whole = {"cpu": "192", "memory": "2048Gi", "pods": "49", GPU: "8", EFA: "32"}
    free = {"cpu": "191600m", "memory": memory, "pods": "49", GPU: "8", EFA: "32", **(more or {}), **devices}
    labels = {INSTANCE_TYPE: "ml.p5.48xlarge", GROUP: "train", "topology.kubernetes.io/zone": "z1", "nvidia.com/gpu.memory": "81559"}
    status = {"capacity": whole, "allocatable": free, "conditions": [{"type": "Ready", "status": ready}]}
    return shapes.node({"metadata": {"name": name, "labels": labels}, "status": status})


def test_all_cards_by_default_and_the_rest_in_proportion() -> None:
    whole = size(P5, Share())
    assert whole.resources == {"cpu": "180", "memory": "1805Gi", GPU: "8", EFA: "32"}
    assert (whole.processes, whole.wrong) == (8, ())
    part = size(P5, Share(accelerators=2))
    assert part.resources == {"cpu": "45", "memory": "451Gi", GPU: "2", EFA: "8"}
    neuron = size(TRN, Share())
    assert (neuron.resources["aws.amazon.com/neuron"], neuron.resources[EFA], neuron.processes) == ("16", "8", 32)
    assert set(size(CPU, Share()).resources) == {"cpu", "memory"}
    assert set(size(P5, Share(accelerators=0)).resources) == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("share", "field", "part"),
    [
        (Share(accelerators=9), "accelerators", "One ml.p5.48xlarge offers 8 accelerators to a pod; 9 were asked for."),
        (Share(efa=33), "efa", "offers 32 EFA cards; 33"),
        (Share(memory="96"), "memory", "96 is 96 bytes: write it with its unit, such as 96Gi."),
        (Share(memory="1152.0"), "memory", "such as 1152Gi"),
        (Share(memory="96 GB"), "memory", "is no quantity"),
        (Share(memory="0"), "memory", "0 is nothing"),
        (Share(memory="2000Gi"), "memory", "2000Gi is more than the 1900.0 GiB that a node of ml.p5.48xlarge has left"),
        (Share(cpu="-1"), "cpu", "is nothing"),
        (Share(cpu="lots"), "cpu", "is no quantity"),
        (Share(cpu="1e999999999"), "cpu", "is no quantity"),
        (Share(memory="1e30"), "memory", "is more than"),
        (Share(cpu="192"), "cpu", "192 is more than the 190"),
        (Share(mig="1g.10gb"), "mig", "offer these MIG slices: none"),
    ],
)
def test_each_wrong_wish_has_its_sentence(share: Share, field: str, part: str) -> None:
    found = size(P5, share)
    assert [(v.pointer, part in v.message) for v in found.wrong] == [(field, True)], found.wrong


def test_every_spelling_of_the_same_quantity_is_the_same() -> None:
    assert size(P5, Share(cpu="24")).resources["cpu"] == size(P5, Share(cpu="24000m")).resources["cpu"] == "24"
    assert size(P5, Share(cpu="0.5")).resources["cpu"] == "500m"
    assert size(P5, Share(memory="96Gi")).resources["memory"] == size(P5, Share(memory="98304Mi")).resources["memory"] == "96Gi"


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert [v.pointer for v in size(P5, Share(accelerators=9, efa=33, cpu="x", memory="0")).wrong] == [
        "accelerators",
        "efa",
        "cpu",
        "memory",
    ]


def test_a_mig_slice_is_asked_for_by_its_own_resource() -> None:
    sliced = Offer("ml.p5.48xlarge", "nodes", 190_000, 1900 * GIB, efa=32, mig={"nvidia.com/mig-1g.10gb": 56})
    found = size(sliced, Share(mig="1g.10gb", accelerators=7))
    assert (found.resources["nvidia.com/mig-1g.10gb"], found.processes) == ("7", 7)
    assert EFA not in found.resources or int(found.resources[EFA]) <= 4


def test_the_least_that_every_usable_node_has_is_offered_and_the_faulty_card_is_told() -> None:
    """Case 49: one node shows 31 EFA cards of 32."""
    found = [a_node("a"), a_node("b", more={EFA: "31"}), a_node("c", memory="1Gi", ready="False")]
    offer = accelerators.from_nodes("ml.p5.48xlarge", found, taken=(1_000, 10 * GIB), tiered=20)
    assert (offer.gpus, offer.efa, offer.nodes, offer.usable) == (8, 31, 3, 2)
    assert offer.memory_bytes == (2000 - 10) * GIB - 2048 * GIB * 20 // 100
    assert (offer.cpu_millis, offer.gpu_memory_mib, offer.groups, offer.zones) == (190_600, 81559, ("train",), ("z1",))
    assert offer.notes == (
        "A node offers 31 of vpc.amazonaws.com/efa where 32 are built in: one device or more is faulty or not announced.",
    )


@pytest.mark.parametrize(
    ("cluster", "percent"),
    [
        (None, 0),
        ({}, 0),
        ({"TieredStorageConfig": {"Mode": "Disable", "InstanceMemoryAllocationPercentage": 20}}, 0),
        ({"TieredStorageConfig": {"Mode": "Enable", "InstanceMemoryAllocationPercentage": 30}}, 30),
    ],
)
def test_tiered_checkpointing_takes_its_part(cluster: Any, percent: int) -> None:
    assert accelerators.tiered_percent(cluster) == percent


@given(st.integers(0, 20), st.integers(1, 200_000), st.integers(1, 4_000))
def test_a_sized_pod_fits_the_node(count: int, cpu: int, memory: int) -> None:
    offer = Offer("ml.x.y", "nodes", cpu, memory * GIB, gpus=8, efa=4)
    found = size(offer, Share(accelerators=count)).resources
    assert quantities.millis(found["cpu"]) <= max(offer.cpu_millis, 100)
    assert quantities.whole(found["memory"]) <= offer.memory_bytes
    assert int(found.get(GPU, 0)) <= 8
    assert int(found.get(EFA, 0)) <= 4


@given(st.integers(1, 10**15))
def test_a_quantity_that_is_written_is_read_back(number: int) -> None:
    assert quantities.millis(quantities.cpu(number)) == number
    assert 0 <= number - quantities.whole(quantities.memory(number)) < 1024**2
