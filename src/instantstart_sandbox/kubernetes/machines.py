"""The instance-type table of the emulated nodes (``data/machines.tsv``)."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

from .nodes import Machine


@lru_cache(maxsize=1)
def _table() -> dict[str, Machine]:
    found = {}
    text = files("instantstart_sandbox.kubernetes").joinpath("data/machines.tsv").read_text()
    for line in text.splitlines()[2:]:
        name, vcpus, memory, gpus, devices, cores, efa, addresses, architecture = line.split("\t")
        found[name] = Machine(int(vcpus), float(memory), int(gpus), int(devices), int(cores), int(efa), int(addresses), architecture)
    return found


def machine(instance_type: str) -> Machine:
    """What an ``ml.`` type has; a type newer than the table counts as a small plain machine."""
    return _table().get(instance_type) or Machine(vcpus=2, memory_gib=8, addresses=10)
