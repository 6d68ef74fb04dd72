"""What must hold before a download: the repository is there and may be read, the volume is bound and may be written."""

from __future__ import annotations

import base64
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, quantities
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.downloads import specs
from instantstart.ensure.capacity import karpenter
from instantstart.ensure.findings import Finding, Level
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import images
from instantstart.ensure.storage.volumes import DRIVER
from instantstart.hub.client import HubFile, Repository, Wanted

TOKEN_KEY = "token"  # noqa: S105 - the key's name


_TOKEN_NAME = "hub-token"  # noqa: S105 - a label's value


def token_secret(namespace: str, name: str, token: str) -> dict[str, Any]:
    """The Secret that holds a token of the hub."""
    labels = {MANAGED_BY: MANAGER, "app.kubernetes.io/name": _TOKEN_NAME}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    data = {TOKEN_KEY: base64.b64encode(token.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def check_token_secret(found: Mapping[str, Any] | None) -> None:
    """Raises Conflict where a Secret of that name holds something else than a token that was stored here."""
    labels = ((found or {}).get("metadata") or {}).get("labels") or {}
    if found is not None and (labels.get(MANAGED_BY), labels.get("app.kubernetes.io/name")) != (MANAGER, _TOKEN_NAME):
        raise problems.Conflict(
            "secret.not_ours",
            f"The Secret {found['metadata']['name']} is somebody else's; it is left as it is.",
            hint="Choose another name for the token's Secret.",
        )


@dataclass(frozen=True)
class Facts:
    """What was read. ``refusal`` is the hub's, when it did not show the repository; ``claim`` None: there is none."""

    repository: Repository | None
    refusal: problems.Problem | None
    claim: dict[str, Any] | None
    volume: dict[str, Any] | None
    image: Finding
    #: CPU (thousandths) and memory (bytes) of every node that takes pods; None: they could not be read
    rooms: tuple[tuple[int, int], ...] | None = None
    #: whether Karpenter may make further nodes
    grows: bool = False

    @property
    def on_s3(self) -> bool:
        """Whether the volume is a bucket: then files are written from start to end, and never renamed."""
        return bool(((self.volume or {}).get("spec", {}).get("csi") or {}).get("driver") == DRIVER)


def observe(room: Room, where: Site, ask: specs.DownloadModel) -> Facts:
    """Read everything the checks need. Raises what passes (the hub or the cluster cannot be reached now)."""
    kube = where.kube(room)
    claim = kube.find("PersistentVolumeClaim", ask.claim_name, ask.namespace)
    volume = kube.find("PersistentVolume", claim["spec"].get("volumeName", "")) if claim and claim["spec"].get("volumeName") else None
    repository, refusal = None, None
    try:
        repository = room.hub.inspect(Wanted(ask.repository, ask.kind, ask.revision), read_token(kube, ask))
    except (problems.NotFound, problems.Denied) as problem:
        refusal = problem
    rooms, grows = _rooms(kube)
    return Facts(repository, refusal, claim, volume, images.check(where.aws, ask.image), rooms, grows)


def _rooms(kube: Any) -> tuple[tuple[tuple[int, int], ...] | None, bool]:
    try:
        found = [n.get("status", {}).get("allocatable", {}) for n in kube.list("Node") if not n["spec"].get("unschedulable")]
        grows = bool(karpenter.list_served(kube, karpenter.NODE_POOL))
    except problems.Problem:
        return None, False
    return tuple((quantities.millis(a.get("cpu")), quantities.whole(a.get("memory"))) for a in found), grows


def read_token(kube: Any, ask: specs.DownloadModel) -> str | None:
    """The token of the named Secret, without the newline that often ends it. Raises NotFound ``hub.token_secret_missing``."""
    if ask.token_secret is None:
        return None
    secret = kube.find("Secret", ask.token_secret, ask.namespace)
    value = (secret or {}).get("data", {}).get(TOKEN_KEY)
    if not value:
        raise problems.NotFound(
            "hub.token_secret_missing",
            f"There is no Secret {ask.namespace}/{ask.token_secret} with a key {TOKEN_KEY}.",
            hint="Store the token first.",
        )
    return base64.b64decode(value).decode().strip()


def chosen(files: Sequence[HubFile], ask: specs.DownloadModel) -> list[HubFile]:
    """The files that the patterns take: as the job itself chooses them."""
    wanted = [f for f in files if not ask.include or any(fnmatch.fnmatch(f.path, pattern) for pattern in ask.include)]
    return [f for f in wanted if not any(fnmatch.fnmatch(f.path, pattern) for pattern in ask.exclude)]


def check_repository(ask: specs.DownloadModel, facts: Facts) -> Finding:
    """The repository is there, may be read, and has files that the patterns take."""
    if facts.refusal is not None:
        field = "revision" if "revision" in facts.refusal.code else "token_secret" if "token" in facts.refusal.code else "repository"
        return Finding(field, "fail", facts.refusal.detail, facts.refusal.hint)
    if facts.repository is None:
        return Finding("repository", "unknown", f"{ask.repository} could not be read.")
    taken = chosen(facts.repository.files, ask)
    if not taken:
        told = f"None of the {len(facts.repository.files)} files of {ask.repository} fits the patterns."
        return Finding("include", "fail", told, "Widen include, or leave it out.")
    size = sum(f.size for f in taken)
    return Finding("repository", "ok", f"{ask.repository} at {facts.repository.commit[:12]}: {len(taken)} files, {size / 1e9:.2f} GB.")


def check_claim(ask: specs.DownloadModel, facts: Facts) -> Finding:
    """The volume is there, bound, and not mounted for reading only."""
    if facts.claim is None:
        return Finding("claim_name", "fail", f"There is no claim {ask.namespace}/{ask.claim_name}.", "List the volumes, or add one.")
    phase = facts.claim.get("status", {}).get("phase", "Pending")
    if phase != "Bound":
        return Finding("claim_name", "fail", f"The claim {ask.namespace}/{ask.claim_name} is {phase}, not Bound.", "Mend it first.")
    if facts.claim["spec"].get("accessModes") == ["ReadOnlyMany"]:
        return Finding("claim_name", "fail", f"The claim {ask.namespace}/{ask.claim_name} is read-only.", "Choose one that may be written.")
    return Finding("claim_name", "ok", f"The claim {ask.namespace}/{ask.claim_name} is bound.")


def check_room(ask: specs.DownloadModel, facts: Facts) -> list[Finding]:
    """Some node is large enough for the job, whatever runs there now."""
    if not facts.rooms:
        return []
    largest_cpu, largest_memory = (max(room[at] for room in facts.rooms) for at in (0, 1))
    told = []
    if quantities.millis(ask.cpu) > largest_cpu:
        told.append(("cpu", f"No node has {ask.cpu} CPU: the largest has {quantities.cpu(largest_cpu)}."))
    if quantities.whole(ask.memory) > largest_memory:
        told.append(("memory", f"No node has {ask.memory} of memory: the largest has {quantities.memory(largest_memory)}."))
    level: Level = "warn" if facts.grows else "fail"
    hint = "Karpenter would have to make a larger one." if facts.grows else "Ask for less, or add a group of larger instances."
    return [Finding(field, level, text, hint) for field, text in told]


def findings(ask: specs.DownloadModel, facts: Facts) -> list[Finding]:
    """Everything that was found."""
    return [check_repository(ask, facts), check_claim(ask, facts), *check_room(ask, facts), facts.image]


def refusal(ask: specs.DownloadModel, facts: Facts, found: Sequence[Finding]) -> problems.Problem | None:
    """The hub's own refusal when it is all that stands in the way (gated and missing are told apart), else all violations at once."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    if facts.refusal is not None and len(failing) == 1:
        return facts.refusal
    fields = [problems.Violation(f"/{f.check}", f.detail) for f in failing]
    hints = " ".join(f.hint for f in failing if f.hint)
    return problems.Invalid("download.refused", " ".join(f.detail for f in failing), hint=hints or None, fields=fields)
