"""Whether a model server can be as it is asked, before anything is made: every reason at its own field.

``ask`` is a ServerAsk of capabilities/server_asks.py, which this floor may not import; ``room`` is the Room.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from instantstart.base import names, patterns, problems, quantities
from instantstart.base.settings import Settings
from instantstart.ensure.capacity import accelerators, nodes
from instantstart.ensure.capacity.accelerators import Offer, Share, Sizing
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import servers, serving
from instantstart.ensure.inference.servers import Server, Settled
from instantstart.ensure.inference.serving import EngineName
from instantstart.ensure.running import commands, disclosures, pending_reads
from instantstart.ensure.running.commands import Parsed
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.running.pod_shapes import Mount
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import images
from instantstart.hub.client import Repository, Wanted
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster

TOKEN_KEY = "token"  # noqa: S105 - the key's name
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth")


@dataclass(frozen=True)
class Meant:
    """What an ask means, without looking at the world."""

    parsed: Parsed
    engine: EngineName
    model: str | None
    image: str | None
    port: int
    name: str

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of the command, as typed."""
        return tuple(self.parsed.argv)


@dataclass(frozen=True)
class Facts:
    """What was read around an ask. ``offers`` None for a type that nobody knows."""

    meant: Meant
    offers: Mapping[str, Offer | None]
    missing_secrets: frozenset[str] = frozenset()
    claims: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    image: Finding | None = None
    hub: Repository | problems.Problem | None = None
    places: Sequence[Place] = ()


def mean(ask: Any, settings: Settings) -> Meant:
    """Take an ask apart. Pure."""
    if ask.argv:
        parsed = commands.look(list(ask.argv))
    elif ask.shell:
        parsed = Parsed(argv=ask.command.split())
    else:
        parsed = commands.parse(ask.command)
    said = serving.engine_of(parsed.argv, ask.image)
    engine: EngineName = said if ask.engine == "auto" else ask.engine
    model = ask.model or serving.model_of(engine, parsed.argv)
    image = ask.image or serving.default_image(settings, engine)
    port = ask.port or serving.port_of(engine, parsed.argv) or serving.ENGINES[engine].port
    return Meant(parsed, engine, model, image, port, ask.name or names.service_name(model or image or "server"))


def observe(room: Any, where: Site, ask: Any) -> Facts:
    """Read what the checks want to know. Raises what passes."""
    kube, meant = where.kube(room), mean(ask, room.settings)
    live = [shapes.node(n) for n in kube.list("Node")]
    if ask.instance_group:
        live = [n for n in live if n.metadata.labels.get(nodes.GROUP) == ask.instance_group]
    views = [nodes.view(n) for n in live]
    types = list(ask.instance_types) or sorted({v.instance_type for v in views if v.instance_type})
    wanted = {s for s in (ask.token_secret, ask.api_key_secret) if s}
    return Facts(
        meant,
        {t: _offer(where, kube, t, live, ask.gpus) for t in types},
        frozenset(s for s in wanted if not _has_token(kube, s, ask.namespace)),
        {v.claim_name: kube.find("PersistentVolumeClaim", v.claim_name, ask.namespace) for v in ask.volumes},
        frozenset(v.group for v in views if v.group),
        images.check(where.aws, meant.image) if meant.image else None,
        _on_hub(room, kube, ask, meant),
        pending_reads.places(room.kube.watching, kube),
    )


def _offer(where: Site, kube: KubeCluster, instance_type: str, live: Sequence[shapes.Node], gpus: int) -> Offer | None:
    """What nodes of a type offer: those that have the accelerators, where any has; a node whose device plugin is not up yet shows none."""
    fitting = [n for n in live if _is_type(n, instance_type) and max(nodes.view(n).gpus, nodes.view(n).neuron) >= gpus]
    try:
        found = accelerators.look(where, kube, instance_type, fitting or live)
        if found.source == "nodes" and found.accelerators < gpus:
            built = accelerators.from_ec2(where.aws, instance_type)
            return built if built.accelerators >= gpus else found
    except problems.NotFound:
        return None
    return found


def _is_type(node: shapes.Node, instance_type: str) -> bool:
    return node.metadata.labels.get(nodes.INSTANCE_TYPE) == instance_type


def _has_token(kube: KubeCluster, secret: str, namespace: str) -> bool:
    return bool(((kube.find("Secret", secret, namespace) or {}).get("data") or {}).get(TOKEN_KEY))


def _on_hub(room: Any, kube: KubeCluster, ask: Any, meant: Meant) -> Repository | problems.Problem | None:
    """The model's repository, or what the hub says instead; None for what is no id of the hub."""
    model = meant.model or ""
    if meant.engine == "custom" or "/" not in model or not re.match(patterns.HUB_REPOSITORY, model):
        return None
    secret = (kube.find("Secret", ask.token_secret, ask.namespace) or {}) if ask.token_secret else {}
    token = base64.b64decode((secret.get("data") or {}).get(TOKEN_KEY, "")).decode("utf-8", "replace").strip() or None
    try:
        found: Repository = room.hub.inspect(Wanted(model), token)
    except problems.Problem as problem:
        return problem
    return found


# --- the checks, pure


def findings(ask: Any, facts: Facts) -> list[Finding]:
    """Everything that was found, ``fail`` at the field it is about."""
    meant = facts.meant
    found = [*_command(ask, meant), *_engine(ask, meant), *_parallel(ask, meant), *_types(ask, facts), *_environment(ask)]
    found += [
        Finding(field_name, "fail", f"There is no Secret {ask.namespace}/{secret} with a key {TOKEN_KEY}.", "Store the token first.")
        for field_name, secret in (("token_secret", ask.token_secret), ("api_key_secret", ask.api_key_secret))
        if secret in facts.missing_secrets
    ]
    found += [*_volumes(ask, facts), *_model(ask, facts), *_other_model(ask, meant)]
    if facts.image is not None:
        found.append(facts.image)
    return found


def _command(ask: Any, meant: Meant) -> list[Finding]:
    at = "argv" if ask.argv else "command"
    found = [Finding(at, "fail", text) for text in meant.parsed.wrong] if not ask.shell else []
    found += [Finding(at, "warn", text) for text in meant.parsed.doubts]
    if ask.argv and ask.command:
        found.append(Finding("argv", "fail", "The command is given twice, as command and as argv: leave one out."))
    if ask.shell and not ask.command.strip():
        found.append(Finding("shell", "fail", "A shell needs a command to run."))
    if any(disclosures.in_text(word) for word in (ask.command, *ask.argv)):
        told = "A secret, such as a token of the hub, stands in the command, where everyone who may read pods sees it."
        found.append(Finding(at, "fail", told, "Store it as a Secret; the hub's token is named as token_secret."))
    if serving.flag(meant.argv, ("--api-key",)):
        found.append(Finding(at, "warn", "--api-key stands in the pod's specification, where everyone who may read pods sees it."))
    return found


def _engine(ask: Any, meant: Meant) -> list[Finding]:
    found = []
    said = serving.flag(meant.argv, ("--port",))
    told = serving.port_of(meant.engine, meant.argv)
    if said is not None and told is None:
        found.append(Finding("command", "fail", f"--port {said} is no port."))
    if ask.port and told and ask.port != told:
        found.append(
            Finding("port", "fail", f"The command says --port {told}, and port is {ask.port}: make them the same, or leave one out.")
        )
    if meant.port < 1024:
        found.append(Finding("port", "warn", f"Port {meant.port} needs rights that the container does not get: choose one from 1024 on."))
    host = serving.flag(meant.argv, ("--host",))
    if not ask.gpus and meant.engine != "custom" and ask.image is None:
        found.append(
            Finding("gpus", "warn", f"{meant.image} needs an accelerator, and gpus is 0.", "Ask for gpus, or name an image for CPUs.")
        )
    if host in _LOOPBACK:
        found.append(Finding("command", "fail", f"--host {host} cannot be reached from outside the pod: write --host 0.0.0.0."))
    if not ask.shell:
        extra = servers.added(meant.engine, meant.argv, meant.port)
        found += [Finding("command", "warn", f"Added, because the server needs it here: {' '.join(extra)}")] if extra else []
    if meant.image is None and not meant.parsed.wrong:
        found.append(Finding("image", "fail", "The command says no engine that has an image: name the image."))
    started = serving.engine_of(meant.argv)
    if not ask.shell and started not in ("custom", meant.engine):
        text = f"The command starts {serving.ENGINES[started].title}, and engine is {meant.engine}."
        found.append(Finding("engine", "fail", text, "Leave engine out: the command says it."))
    if ask.api_key_secret and meant.engine != "vllm":
        found.append(Finding("api_key_secret", "fail", "Only vLLM takes its key from the environment; leave api_key_secret out."))
    return found


def _parallel(ask: Any, meant: Meant) -> list[Finding]:
    """GPUs are asked, not inferred; what the command says must not want more (facts: 1 GPU for each rank)."""
    of = serving.ENGINES[meant.engine]
    unread = [
        Finding("command", "fail", f"{flags[0]} {said} is no number of accelerators: write a whole number from 1 on.")
        for flags in (of.tensor_flags, of.pipeline_flags, of.data_flags)
        if flags and (said := serving.flag(meant.argv, flags)) is not None and not serving.is_count(said) and "$(" not in said
    ]
    told = serving.parallelism(meant.engine, meant.argv)
    if unread:
        return unread
    if told is None:
        unused = ask.gpus > 1 and meant.engine != "custom" and bool(meant.argv) and not ask.shell
        text = f"{ask.gpus} accelerators are asked and the command says no parallelism: the server will use one of them."
        return [Finding("gpus", "warn", text, "Add the tensor-parallel size to the command.")] if unused else []
    tensor, pipeline, data = told
    if "--enable-dp-attention" in meant.argv:
        data = 1  # SGLang: data parallelism of attention shares the ranks of tensor parallelism
    wanted = tensor * pipeline * data
    sentence = f"The command wants {tensor} (tensor) x {pipeline} (pipeline) x {data} (data) = {wanted} accelerators; gpus is {ask.gpus}."
    if wanted > ask.gpus:
        return [Finding("gpus", "fail", sentence, f"Ask for gpus {wanted}, or lower the parallelism.")]
    return [Finding("gpus", "warn", sentence, "The others stay unused.")] if wanted < ask.gpus else []


def _types(ask: Any, facts: Facts) -> list[Finding]:
    found = [
        Finding(f"instance_types/{at}", "fail", f"Nobody knows {t}: no node is of it, and EC2 does not describe it here.")
        for at, t in enumerate(ask.instance_types)
        if facts.offers.get(t) is None
    ]
    empty = ask.instance_group is not None and ask.instance_group not in facts.groups
    if empty:
        found.append(Finding("instance_group", "warn", f"No node of the group {ask.instance_group} is in the cluster now."))
    known = [o for o in facts.offers.values() if o is not None]
    fitting = [o for o in known if o.accelerators >= ask.gpus]
    for offer in known if ask.instance_types else ():
        if offer.accelerators < ask.gpus:
            has = offer.accelerators or "no"
            found.append(Finding("gpus", "fail", f"One {offer.instance_type} has {has} accelerators; a pod with {ask.gpus} fits on none."))
    if not ask.instance_types and ask.gpus and not fitting:
        most = max((o.accelerators for o in known), default=0)
        where = f"the group {ask.instance_group}" if ask.instance_group else "the cluster"
        text = f"No node of {where} has {ask.gpus} accelerators; the most is {most}."
        text = f"No node of {where} is there, and no instance_types say what its nodes have." if empty else text
        found.append(Finding("gpus", "fail", text, "Name the instance_types that shall run it, or add an instance group that has them."))
    if ask.instance_types and not any(o.nodes for o in fitting):
        found.append(Finding("instance_types", "warn", f"No node of {', '.join(ask.instance_types)} is there now: pods wait for one."))
    if len({o.resource for o in fitting if ask.gpus}) > 1 and ask.instance_types:
        found.append(Finding("instance_types", "fail", "These types have accelerators of different kinds: name types of one kind."))
    return found + _sizes(ask, fitting)


def _sizes(ask: Any, fitting: Sequence[Offer]) -> list[Finding]:
    found = {}
    strict = bool(ask.instance_types) or len(fitting) == 1  # of many types, one that is too small is but left out
    for offer in fitting:
        for wrong in accelerators.size(offer, _share(ask)).wrong:
            at = "gpus" if wrong.pointer == "accelerators" else wrong.pointer
            found[at, wrong.message] = Finding(at, "fail" if strict else "warn", wrong.message)
    if ask.shared_memory is not None and ask.memory is not None:
        shared, whole = quantities.find(ask.shared_memory), quantities.find(ask.memory)
        if shared is not None and whole is not None and shared >= whole:
            text = f"/dev/shm of {ask.shared_memory} leaves nothing of the pod's {ask.memory}: it counts against that limit."  # noqa: S108
            found["shared_memory", ""] = Finding("shared_memory", "fail", text)
    return list(found.values())


def _environment(ask: Any) -> list[Finding]:
    found = []
    for name, value in ask.env.items():
        at = f"env/{name}"
        if disclosures.in_variable(name, value):
            text = f"{name} looks like a secret: it would stand readable in the pod and in our records."
            found.append(Finding(at, "fail", text, "Store it as a Secret; the hub's token is named as token_secret."))
    return found


def _volumes(ask: Any, facts: Facts) -> list[Finding]:
    found, seen = [], set()
    for at, mount in enumerate(ask.volumes):
        claim = facts.claims.get(mount.claim_name)
        if claim is None:
            text = f"There is no claim {ask.namespace}/{mount.claim_name}."
            found.append(Finding(f"volumes/{at}/claim_name", "fail", text, "List the volumes, or add one."))
        elif not mount.read_only and claim["spec"].get("accessModes") == ["ReadOnlyMany"]:
            found.append(Finding(f"volumes/{at}/read_only", "fail", f"The claim {mount.claim_name} is read-only."))
        if mount.mount_path.rstrip("/") in seen or mount.mount_path == "/":
            found.append(Finding(f"volumes/{at}/mount_path", "fail", f"{mount.mount_path} cannot be mounted on, or is mounted on already."))
        seen.add(mount.mount_path.rstrip("/"))
    return found


def _model(ask: Any, facts: Facts) -> list[Finding]:
    model, hub = facts.meant.model, facts.hub
    if facts.meant.parsed.wrong:
        return []  # what cannot be read names no model either
    if facts.meant.engine != "custom" and model is None and not ask.shell:
        hint = "Add it to the command, before its flags: vllm serve MODEL --flag; or name it as model."
        return [Finding("model", "fail", "Neither the command nor model says which model is served.", hint)]
    if model and model.startswith("/") and not any(f"{model}/".startswith(v.mount_path.rstrip("/") + "/") for v in ask.volumes):
        return [Finding("model", "warn", f"{model} is in no volume of the pod: it must be in the image.", "Mount the claim that holds it.")]
    if model and model.startswith(("http://", "https://")):
        text = f"{model} is an address: servers take an id of the hub, such as Qwen/Qwen3-0.6B, or a folder."
        return [Finding("model", "fail", text, "Write what follows the hub's name in it.")]
    if isinstance(hub, problems.Problem):
        return [Finding("model", "warn", f"The hub does not show {model}: {hub.detail}", hub.hint)]
    if isinstance(hub, Repository) and hub.gated and not ask.token_secret:
        return [
            Finding("token_secret", "warn", f"{model} is gated: without a token the server cannot fetch it.", "Name a Secret with a token.")
        ]
    return []


def _other_model(ask: Any, meant: Meant) -> list[Finding]:
    """Whether the command loads another model than the one that is named; a folder may well hold it."""
    loaded = serving.model_of(meant.engine, meant.argv)
    if not ask.model or loaded in (None, ask.model) or str(loaded).startswith(("/", ".")):
        return []
    told = f"The command loads {loaded}, and model says {ask.model}: labels, size and checks would be those of another model."
    return [Finding("model", "warn", told, "Leave model out, or make both the same.")]


def unreadable(ask: Any, meant: Meant) -> bool:
    """Whether the command cannot be taken apart, so that nothing could be made of it."""
    return bool(meant.parsed.wrong) and not ask.shell


# --- what is made of it


def _share(ask: Any) -> Share:
    return Share(accelerators=ask.gpus, efa=0, cpu=ask.cpu, memory=ask.memory)


def settle(ask: Any, facts: Facts) -> Settled:
    """The resources that fit on every type it may run on, and how long it may take to start."""
    fitting = [o for o in facts.offers.values() if o is not None and o.accelerators >= ask.gpus]
    sized = [accelerators.size(o, _share(ask)) for o in fitting]
    resources = _least(sized) if sized else {"cpu": ask.cpu or "2", "memory": ask.memory or "8Gi"}
    if not ask.gpus:
        resources = {
            **resources,
            "cpu": ask.cpu or _smaller(resources["cpu"], "4"),
            "memory": ask.memory or _smaller(resources["memory"], "16Gi"),
        }
    seconds = ask.startup_minutes * 60 if ask.startup_minutes else serving.startup_seconds(_gib(facts))
    return Settled(resources, seconds)


def _least(sized: Sequence[Sizing]) -> dict[str, str]:
    least = dict(sized[0].resources)
    for each in sized[1:]:
        for key in ("cpu", "memory"):
            least[key] = _smaller(least[key], each.resources[key])
    return least


def _smaller(one: str, other: str) -> str:
    return one if quantities.parse(one) <= quantities.parse(other) else other


def _gib(facts: Facts) -> float | None:
    if isinstance(facts.hub, Repository):
        weights = sum(f.size for f in facts.hub.files if f.path.endswith(_WEIGHTS))
        return weights / 2**30
    return serving.model_gib(facts.meant.model)


def server(ask: Any, meant: Meant, settled: Settled, balanced: bool = False) -> Server:
    """The server that is made. Pure."""
    of = serving.ENGINES[meant.engine]
    memory = quantities.whole(settled.resources.get("memory"))
    shared = quantities.whole(ask.shared_memory) if ask.shared_memory else servers.shared_memory_of(memory)
    return Server(
        name=meant.name,
        namespace=ask.namespace,
        engine=meant.engine,
        model=meant.model,
        argv=meant.argv,
        image=str(meant.image),
        port=meant.port,
        health=ask.health_path or of.health,
        metrics=ask.metrics_path or of.metrics,
        shell=ask.command if ask.shell else None,
        environment=dict(ask.env),
        token_secret=ask.token_secret,
        key_secret=ask.api_key_secret,
        mounts=tuple(Mount(v.claim_name, v.mount_path, v.read_only, v.folder) for v in ask.volumes),
        instance_types=tuple(ask.instance_types),
        group=ask.instance_group,
        shared_memory_bytes=shared,
        drain_seconds=ask.drain_seconds,
        balanced=balanced,
    )


def has_room(ask: Any, settled: Settled, places: Sequence[Place]) -> bool:
    """Whether one more pod finds its accelerators on some node now: then pods are changed by surge. Pure."""
    if not ask.gpus:
        return True
    resource = next((r for r in settled.resources if "/" in r), nodes.GPU)
    for place in places:
        view = nodes.view(place.node)
        fits = (not ask.instance_types or view.instance_type in ask.instance_types) and ask.instance_group in (None, view.group)
        free = quantities.whole(place.node.status.allocatable.get(resource)) - place.held.get(resource, 0)
        if view.usable and fits and free >= ask.gpus:
            return True
    return False
