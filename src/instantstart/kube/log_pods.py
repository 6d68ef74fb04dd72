"""Which containers there are to read, and how each is: a live copy of the pods that somebody reads, shared by all who read the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from instantstart.kube.cache import Source
from instantstart.kube.kinds import segment
from instantstart.kube.shapes import ContainerStatus, Pod


class Container(msgspec.Struct, frozen=True, gc=False):
    """How one container is. ``state``: waiting, running, ended; ``why`` in the kubelet's words; ``life`` counts its restarts."""

    name: str
    life: int
    state: str
    code: int | None = None
    why: str | None = None

    @property
    def ending(self) -> str:
        """How it ended, in a sentence."""
        reason = f" ({self.why})" if self.why else ""
        return f"The container ended with exit code {self.code}{reason}." if self.code is not None else "The container ended."


class PodLogs(msgspec.Struct, frozen=True, gc=False):
    """A pod as its logs see it. ``owners`` are kind and uid."""

    namespace: str
    name: str
    uid: str
    version: str
    phase: str
    labels: dict[str, str]
    owners: tuple[tuple[str, str], ...]
    containers: tuple[Container, ...]

    def container(self, name: str) -> Container | None:
        """One container by its name."""
        return next((c for c in self.containers if c.name == name), None)


@dataclass(frozen=True)
class Choice:
    """Which pods: by label, or one by name. ``owner`` is kind and uid: a pod that another of that kind owns is not meant."""

    namespace: str
    labels: str | None = None
    pod: str | None = None
    owner: tuple[str, str] | None = None

    def selectors(self) -> dict[str, str]:
        """As parameters of a list."""
        return {"labelSelector": self.labels} if self.labels else {"fieldSelector": f"metadata.name={self.pod}"}

    def means(self, pod: PodLogs) -> bool:
        """Whether a pod that the selector found is meant."""
        return self.owner is None or all(kind != self.owner[0] or uid == self.owner[1] for kind, uid in pod.owners)


def source(choice: Choice) -> Source[PodLogs]:
    """What to copy for a choice."""
    return Source(f"/api/v1/namespaces/{segment(choice.namespace)}/pods", Pod, brief, choice.selectors())


def brief(pod: Pod) -> PodLogs:
    """What is kept of a pod."""
    meta, status = pod.metadata, pod.status
    over = status.phase in ("Succeeded", "Failed")
    told = {s.name: s for s in [*status.init_container_statuses, *status.container_statuses]}
    for each in pod.spec.containers:
        told.setdefault(each.name, ContainerStatus(name=each.name))
    return PodLogs(
        namespace=meta.namespace or "",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        phase=status.phase,
        labels=meta.labels,
        owners=tuple((o.kind, o.uid) for o in meta.owner_references if o.controller),
        containers=tuple(_container(each, over) for each in told.values()),
    )


def _container(status: ContainerStatus, over: bool) -> Container:
    if status.state.running is not None:
        return Container(status.name, status.restart_count, "running")
    ended: dict[str, Any] | None = status.state.terminated or status.last_state.terminated
    if ended is not None:
        why = ended.get("reason")
        return Container(status.name, status.restart_count, "ended", ended.get("exitCode"), None if why in ("Completed", "Error") else why)
    waiting = status.state.waiting or {}
    return Container(status.name, status.restart_count, "ended" if over else "waiting", None, waiting.get("reason"))
