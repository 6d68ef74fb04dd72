"""The pods of a training job: which there should be, and what the operator writes into each."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from ..kubelet.behaviour import RUN, STARTS
from ..loops.objects import Object, labels_of, name_of, namespace_of, short_hash, spec_of, status_of, uid_of
from ..loops.replicaset import pod_from

LABEL, REPLICA, RANK = "HPJob", "sagemaker.amazonaws.com/replica-name", "sagemaker.amazonaws.com/pod-rank"
#: ``sandbox.instantstart.dev/run-rank-<n>`` in a template: what only that rank does
_RANK_RUN = f"{RUN}-rank-"
_CARDS = ("nvidia.com/gpu", "aws.amazon.com/neuroncore", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
_PORTS = 20_000


@dataclass(frozen=True)
class Place:
    """One pod that should be: of which replica, with which rank in the job."""

    replica: Object
    number: int
    rank: int

    def name(self, job: Object) -> str:
        """The pod's name."""
        return f"{name_of(job)}-{self.replica['name']}-{self.number}"


def replicas(job: Object, replica: Object) -> int:
    """How many pods of a replica there should be now: an elastic job's target goes before."""
    target = ((status_of(job).get("elasticScalingStatus") or {}).get("targetReplicas") or {}).get(replica["name"])
    return int(target if target is not None else replica.get("replicas") or 0)


def places(job: Object) -> list[Place]:
    """All pods that should be, by rank."""
    wanted = [(replica, n) for replica in spec_of(job).get("replicaSpecs") or [] for n in range(replicas(job, replica))]
    return [Place(replica, number, rank) for rank, (replica, number) in enumerate(wanted)]


def rank_of(pod: Object) -> int:
    """A pod's rank."""
    return int(labels_of(pod).get(RANK, "0"))


def master_port(job: Object) -> str:
    """The port of rank 0. One for each job: all pods of the sandbox share this machine's ports."""
    return str(_PORTS + int.from_bytes(short_hash(uid_of(job)).encode(), "big") % 8000)


def processes(job: Object, template: Object) -> str:
    """``nprocPerNode``: a number as it is; otherwise the cards of the first container, or 1 without any."""
    wanted = str(spec_of(job).get("nprocPerNode") or "auto")
    if wanted.isdigit() or wanted == "cpu":
        return wanted if wanted.isdigit() else "1"
    limits = (spec_of(template)["containers"][0].get("resources") or {}).get("limits") or {}
    return next((str(limits[c]) for c in _CARDS if c in limits), "1")


def build(job: Object, place: Place, master: str, total: int) -> Object:
    """The pod of a place. ``master`` is rank 0's address, "" for rank 0 itself; ``total`` the number of pods."""
    template = copy.deepcopy(place.replica.get("template") or {})
    pod = pod_from(template, job, place.name(job))
    pod["metadata"]["labels"] |= {LABEL: name_of(job), REPLICA: place.replica["name"], RANK: str(place.rank)}
    notes = pod["metadata"].setdefault("annotations", {})
    if (own := notes.get(f"{_RANK_RUN}{place.rank}")) is not None:
        notes[RUN] = own
    notes[STARTS] = str(status_of(job).get("restartCount") or 0)
    spec = pod["spec"]
    if spec.get("restartPolicy") in (None, "Always"):
        # the agent restarts processes; a container that has ended well is not to begin anew
        spec["restartPolicy"] = "Never"
    spec.setdefault("hostname", place.name(job)[:63])
    for container in spec["containers"]:
        _topology(container, job, place, (master, total))
    return pod


def _topology(container: Object, job: Object, place: Place, others: tuple[str, int]) -> None:
    master, total = others
    here = processes(job, place.replica.get("template") or {})
    address: Object = {"value": master} if master else {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    wanted: dict[str, Object] = {
        "JOB_NAME": {"value": name_of(job)},
        "JOB_NAMESPACE": {"value": namespace_of(job)},
        "NNODES": {"value": str(total)},
        "NPROC_PER_NODE": {"value": here},
        "NODE_RANK": {"value": str(place.rank)},
        "RANK": {"value": str(place.rank)},
        "WORLD_SIZE": {"value": str(total * int(here))},
        "MASTER_ADDR": address,
        "MASTER_PORT": {"value": master_port(job)},
    }
    given = {e["name"] for e in container.get("env") or []}
    container["env"] = [{"name": k, **v} for k, v in wanted.items() if k not in given] + list(container.get("env") or [])
