"""What must hold before a job is submitted: what was said fits together (pure), and the cluster has what it names.

``wrong`` needs no cluster, so that the door answers at once; ``observe`` and ``findings`` are the preflight. ``settle`` decides what was
left open (nodes, resources, processes), the same in a preview and in the operation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from instantstart.base import quantities
from instantstart.base.problems import Violation
from instantstart.capabilities.training.jobs.specs import SubmitTrainingJob
from instantstart.ensure.capacity import accelerators, nodes
from instantstart.ensure.capacity.accelerators import Offer, Share, Sizing
from instantstart.ensure.findings import Finding
from instantstart.ensure.running import disclosures
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.training import recipe_scripts
from instantstart.ensure.training.recipe_specs import ON, config_of

#: KubeRay keeps room for the suffixes of its services (kuberay 1.7: 47 for a job, whose cluster bears a longer name)
_NAME_LIMITS = {"pytorch": 50, "ray_job": 47, "ray_cluster": 52}
_RAY_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
#: paths of the container that are ours or its own
_TAKEN_PATHS = ("/", "/dev", "/dev/shm", "/proc", "/sys", "/tmp/hyperpod", "/tmp/instantstart", recipe_scripts.FOLDER)  # noqa: S108
_TRACKING_VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_NAME", "MLFLOW_TAGS")
_RAY_TAG = re.compile(r"(?:^|[:/.-])ray[:-]?v?(\d+\.\d+\.\d+)")
#: what KubeRay's submitter asks for, beside the head
SUBMITTER_CPU, SUBMITTER_MEMORY = "500m", "1Gi"


@dataclass(frozen=True)
class Settled:
    """What was left open, decided. ``together``: no single group has enough nodes, so that pods follow one another into one zone."""

    name: str
    group: str | None
    zone: str | None
    together: bool
    sizing: Sizing
    processes: int

    def learned(self) -> dict[str, Any]:
        """As small JSON, for later stages."""
        sizing = {"resources": dict(self.sizing.resources), "accelerators": self.sizing.accelerators, "efa": self.sizing.efa}
        sizing |= {"memory_bytes": self.sizing.memory_bytes, "processes": self.sizing.processes}
        return {"name": self.name, "group": self.group, "zone": self.zone, "together": self.together, "processes": self.processes} | sizing

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Settled:
        """The inverse."""
        sizing = Sizing(told["resources"], told["accelerators"], told["efa"], told["processes"], told["memory_bytes"])
        return cls(told["name"], told["group"], told["zone"], told["together"], sizing, told["processes"])


def config(ask: SubmitTrainingJob, name: str, processes: int | None) -> dict[str, Any]:
    """The configuration of the entry script; empty for a Ray cluster without work."""
    if ask.recipe is None:
        return {}
    tracking = ask.tracking
    more: dict[str, Any] = {"job": name, "processes_per_node": processes, "nodes": None if ask.elastic else ask.nodes}
    if tracking:
        more |= {"experiment": tracking.experiment, "run_name": tracking.run_name, "tags": dict(tracking.tags)}
    if ask.runs_as == "ray_job" and ask.recipe.project and ask.recipe.copy_project is None:
        more["copy_project"] = False  # a copy would be on the head only, and the work is on the workers
    return {**config_of(ask.recipe, **more), **({"copy_project": False} if more.get("copy_project") is False else {})}


def wrong(ask: SubmitTrainingJob) -> list[Violation]:
    """Everything that is wrong with what was said, whatever the cluster has. Log rules are judged by judging.py."""
    return [*_wrong_kind(ask), *_wrong_name(ask), *_wrong_recipe(ask), *_wrong_variables(ask), *_wrong_mounts(ask), *_wrong_elastic(ask)]


def _wrong_kind(ask: SubmitTrainingJob) -> list[Violation]:
    found, kind = [], ask.runs_as
    if ask.recipe is None and kind != "ray_cluster":
        found.append(Violation("/recipe", "Say what is to run: a job without a recipe does nothing."))
    if ask.recipe is not None and kind not in ON[ask.recipe.framework]:
        words = " or ".join(ON[ask.recipe.framework])
        told = f"A recipe of {ask.recipe.framework} runs on {words}, not on {kind}."
        if kind == "ray_cluster":
            told = "A Ray cluster runs nothing by itself: leave the recipe out, or submit a ray_job."
        found.append(Violation("/kind", told))
    if kind != "pytorch":
        only = {"log_rules": ask.log_rules, "elastic": ask.elastic, "checkpointing": ask.checkpointing != "own"}
        found += [Violation(f"/{name}", "Only HyperPod's operator (kind pytorch) knows this.") for name, said in only.items() if said]
        if getattr(ask.recipe, "direct", False):
            found.append(Violation("/recipe/direct", "Ray starts our entry script, which needs Python: leave direct out."))
    if ask.ray.max_nodes is not None and ask.ray.max_nodes < ask.nodes:
        found.append(Violation("/ray/max_nodes", f"is less than nodes, {ask.nodes}."))
    return found


def _wrong_name(ask: SubmitTrainingJob) -> list[Violation]:
    limit, found = _NAME_LIMITS[ask.runs_as], []
    if len(ask.name) > limit:
        found.append(
            Violation("/name", f"has {len(ask.name)} characters; a {ask.runs_as} takes {limit}, since its pods and services add theirs.")
        )
    if ask.runs_as != "pytorch" and not _RAY_NAME.fullmatch(ask.name):
        found.append(Violation("/name", "KubeRay takes names that begin with a letter."))
    return found


def _wrong_recipe(ask: SubmitTrainingJob) -> list[Violation]:
    if ask.recipe is None:
        return []
    told = recipe_scripts.faults_of(config(ask, ask.name, ask.processes))
    return [Violation("/recipe" + each.pointer, each.message) for each in told]


def _wrong_variables(ask: SubmitTrainingJob) -> list[Violation]:
    found = []
    for place in ("env", "secret_env"):
        said = getattr(ask, place)
        for name in recipe_scripts.reserved(list(said)):
            told = (
                f"{name} is given by the launcher and the operator: an own value makes nodes wait for ever, or train alone. Leave it out."
            )
            found.append(Violation(f"/{place}/{name}", told))
        if ask.tracking:
            given = [name for name in _TRACKING_VARIABLES if name in said]
            found += [Violation(f"/{place}/{name}", "tracking sets this: say it in one place.") for name in given]
    found += [Violation(f"/secret_env/{name}", f"{name} is in env, too.") for name in ask.secret_env if name in ask.env]
    found += _disclosed(ask)
    return found + [
        Violation(f"/env/{name}", "has a character that no variable can hold.") for name, text in ask.env.items() if "\0" in text
    ]


def _disclosed(ask: SubmitTrainingJob) -> list[Violation]:
    """Secrets that would stand readable in the pods, in the object and in our records."""
    seen = "would stand readable in the job and in our records: store it as a Secret, and name that in secret_env"
    found = [
        Violation(f"/env/{name}", f"{name} looks like a secret, which {seen}.")
        for name, value in ask.env.items()
        if disclosures.in_variable(name, value)
    ]
    if ask.tracking is not None and disclosures.in_address(ask.tracking.uri):
        told = f"The address says who signs in, which {seen} as MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
        found.append(Violation("/tracking/uri", told))
    return found


def _wrong_mounts(ask: SubmitTrainingJob) -> list[Violation]:
    found, paths = [], [mount.path.rstrip("/") or "/" for mount in ask.mounts]
    for index, path in enumerate(paths):
        here = f"/mounts/{index}/path"
        if path in _TAKEN_PATHS:
            found.append(Violation(here, f"{path} is the container's own: mount somewhere else, such as /data."))
        if path in paths[:index]:
            found.append(Violation(here, f"{path} is mounted twice."))
        if ".." in path.split("/"):
            found.append(Violation(here, "must not have '..' among its parts."))
    for name, at in (("shared_memory", ask.shared_memory), ("ray/head_cpu", ask.ray.head_cpu), ("ray/head_memory", ask.ray.head_memory)):
        value = quantities.find(at)
        if at is not None and (value is None or value <= 0):
            found.append(Violation(f"/{name}", f"{at!r} is no quantity above 0: write it as 4 or 16Gi."))
    return found


def _wrong_elastic(ask: SubmitTrainingJob) -> list[Violation]:
    elastic, found = ask.elastic, []
    if elastic is None:
        return []
    if elastic.min_nodes > elastic.max_nodes:
        found.append(Violation("/elastic/min_nodes", f"is more than max_nodes, {elastic.max_nodes}."))
    elif not elastic.min_nodes <= ask.nodes <= elastic.max_nodes:
        found.append(Violation("/nodes", f"is outside of what is elastic: {elastic.min_nodes} to {elastic.max_nodes}."))
    if (elastic.step is None) == (not elastic.node_counts):
        found.append(Violation("/elastic/step", "Give either a step or the numbers of nodes (node_counts)."))
    outside = [n for n in elastic.node_counts if not elastic.min_nodes <= n <= elastic.max_nodes]
    if outside:
        found.append(Violation("/elastic/node_counts", f"{outside[0]} is not between min_nodes and max_nodes."))
    if elastic.node_counts and ask.nodes not in elastic.node_counts:
        found.append(Violation("/nodes", f"is none of elastic.node_counts: {', '.join(map(str, elastic.node_counts))}."))
    if ask.checkpointing != "own":
        told = f"Elastic training cannot be combined with {ask.checkpointing} checkpointing: choose one of them."
        found.append(Violation("/checkpointing", told))
    return found


@dataclass(frozen=True)
class Facts:
    """What was read. None: it could not be read, or is not there; ``unread`` says what could not, with the reason."""

    offer: Offer | None
    offer_problem: str | None
    places: Sequence[Place]
    #: capacity type by instance group, and type of the nodes by group
    capacity_types: Mapping[str, str]
    group_types: Mapping[str, str]
    #: 0: tiered checkpointing is off
    tiered_percent: int | None
    served: bool
    namespace: bool
    claims: Mapping[str, Mapping[str, Any]]
    secrets: Mapping[str, tuple[str, ...] | None]
    account: bool
    queues: tuple[str, ...] | None
    priorities: tuple[str, ...]
    image: Finding
    existing: Mapping[str, Any] | None
    taken: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()


def settle(ask: SubmitTrainingJob, facts: Facts) -> Settled:
    """Decide what was left open. Needs the offer."""
    offer = facts.offer
    if offer is None:
        raise ValueError("there is no offer to settle on")
    group, zone, together = _where(ask, facts)
    sizing = accelerators.size(_room_for_head(ask, offer, facts), _share(ask))
    processes = ask.processes or sizing.processes
    return Settled(free_name(ask, facts), group, zone, together, sizing, processes)


def free_name(ask: SubmitTrainingJob, facts: Facts) -> str:
    """The name, or the next version of it that is free and fits."""
    if ask.if_exists != "version" or ask.name not in facts.taken:
        return ask.name
    limit, number = _NAME_LIMITS[ask.runs_as], 2
    base = re.sub(r"-\d{1,4}$", "", ask.name)
    while (name := f"{base[: limit - len(str(number)) - 1].rstrip('-')}-{number}") in facts.taken:
        number += 1
    return name


def _share(ask: SubmitTrainingJob) -> Share:
    return Share(ask.accelerators, ask.efa, ask.cpu, ask.memory, ask.mig)


def _room_for_head(ask: SubmitTrainingJob, offer: Offer, facts: Facts) -> Offer:
    """Less for each worker where Ray's head and submitter find no other node than the workers' own."""
    if ask.runs_as == "pytorch" or offer.source == "ec2":
        return offer
    others = [p for p in facts.places if p.node.metadata.labels.get(nodes.INSTANCE_TYPE) != ask.instance_type and nodes.view(p.node).usable]
    if others or offer.usable > ask.nodes:
        return offer
    cpu = quantities.millis(ask.ray.head_cpu) + quantities.millis(SUBMITTER_CPU)
    memory = quantities.whole(ask.ray.head_memory) + quantities.whole(SUBMITTER_MEMORY)
    return replace(offer, cpu_millis=max(offer.cpu_millis - cpu, 1000), memory_bytes=max(offer.memory_bytes - memory, quantities.GIB))


def _where(ask: SubmitTrainingJob, facts: Facts) -> tuple[str | None, str | None, bool]:
    """One group for several nodes: the one with most free nodes that has enough; else one zone by affinity. EFA crosses neither."""
    if ask.nodes == 1 or ask.instance_group:
        return ask.instance_group, ask.zone, ask.nodes > 1 and ask.zone is None
    free, there = _by_group(ask, facts, only_free=True), _by_group(ask, facts, only_free=False)
    enough = sorted((g for g in there if there[g] >= ask.nodes), key=lambda g: (-free.get(g, 0), g))
    return (enough[0], ask.zone, ask.zone is None) if enough else (None, ask.zone, ask.zone is None)


def _by_group(ask: SubmitTrainingJob, facts: Facts, *, only_free: bool) -> dict[str, int]:
    found: dict[str, int] = {}
    for place in candidates(ask, facts):
        group = place.node.metadata.labels.get(nodes.GROUP)
        barred = ask.elastic is not None and facts.capacity_types.get(group or "") == "spot"
        if group and not barred and (not only_free or is_free(place, facts)):
            found[group] = found.get(group, 0) + 1
    return found


def candidates(ask: SubmitTrainingJob, facts: Facts) -> list[Place]:
    """The usable nodes that the ask lets the job go to."""
    wanted = {nodes.INSTANCE_TYPE: ask.instance_type, nodes.GROUP: ask.instance_group, nodes.ZONE: ask.zone}
    fitting = [p for p in facts.places if all(v in (None, p.node.metadata.labels.get(k)) for k, v in wanted.items())]
    return [p for p in fitting if nodes.view(p.node).usable]


def is_free(place: Place, facts: Facts) -> bool:
    """Whether no pod holds an accelerator of the node."""
    resource = facts.offer.resource if facts.offer else None
    return resource is None or not place.held.get(resource, 0)


def ray_version(ask: SubmitTrainingJob) -> str | None:
    """Said, or told by the image's tag, as in rayproject/ray:2.46.0; None when neither tells."""
    found = _RAY_TAG.search(ask.image)
    return ask.ray.version or (found[1] if found else None)


__all__ = ["Facts", "Settled", "candidates", "config", "free_name", "is_free", "ray_version", "settle", "wrong"]
