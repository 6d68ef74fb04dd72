"""What is asked of a model server, whether it is a deployment of its own or a pool of warm workers: the words both share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Claim, InstanceType, Namespace, Within
from instantstart.ensure.running import commands

Name = Annotated[
    str,
    Field(min_length=1, max_length=50, pattern=patterns.SERVICE_NAME, description="Name of its Kubernetes objects.", examples=["qwen"]),
]
Command = Annotated[
    str,
    Field(
        max_length=20_000,
        description="The command as you would type it: quotes, JSON and line ends with a backslash are taken as a shell takes them, and no "
        "shell runs it. Flags alone go to the image's entry point. Empty: the image's own command.",
        examples=["vllm serve Qwen/Qwen3-0.6B --max-model-len 8192"],
    ),
]
Argv = Annotated[
    list[Annotated[str, Field(max_length=10_000)]],
    Field(max_length=500, description="The command as a list of words, instead of command."),
]
Shell = Annotated[bool, Field(description="Run command by /bin/sh -c in the container. Only for pipes, variables and &&.")]
EngineWish = Annotated[
    Literal["auto", "vllm", "sglang", "custom"],
    Field(description="What serves: sets port, health and metrics paths and the image. auto: as the command or the image says."),
]
Model = Annotated[
    str,
    Field(min_length=1, max_length=500, pattern=patterns.PRINTABLE, description="Id or path of the model. Left out: as the command says."),
]
Image = Annotated[
    str, Field(min_length=1, max_length=512, pattern=patterns.PRINTABLE, description="Container image. Left out: the engine's pinned one.")
]
Replicas = Annotated[int, Field(ge=0, le=1000, description="Pods.")]
Gpus = Annotated[
    int,
    Field(ge=0, le=64, description="Accelerators of each pod. Asked, never guessed; checked against the parallelism of the command."),
]
Types = Annotated[list[InstanceType], Field(max_length=20, description="Instance types it may run on. []: any that has the accelerators.")]
Group = Annotated[
    str, Field(min_length=1, max_length=63, pattern=patterns.INSTANCE_GROUP, description="Only nodes of this instance group.")
]
Quantity = Annotated[str, Field(max_length=20, pattern=patterns.QUANTITY)]
Cpu = Annotated[Quantity, Field(description="CPU of each pod. Left out: its share of the node.")]
Memory = Annotated[Quantity, Field(description="Memory of each pod, shared memory included. Left out: its share of the node.")]
SharedMemory = Annotated[Quantity, Field(description="Shared memory (/dev/shm) of a pod. Left out: half of its memory, 32Gi at most.")]
VariableName = Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.VARIABLE)]
Environment = Annotated[
    dict[VariableName, Annotated[str, Field(max_length=4096)]],
    Field(max_length=100, description="Environment variables. No tokens: they go into Secrets."),
]
Secret = Annotated[str, Field(min_length=1, max_length=253, pattern=patterns.KUBERNETES_NAME)]
TokenSecret = Annotated[Secret, Field(description="Secret of the namespace whose key token is the hub's token, for gated models.")]
KeySecret = Annotated[Secret, Field(description="Secret whose key token requests must bear (vLLM's VLLM_API_KEY).")]
Port = Annotated[int, Field(ge=1, le=65535, description="Port of the server. Left out: as the command says, else the engine's.")]
HealthPath = Annotated[
    str, Field(max_length=200, pattern=patterns.URL_PATH, description="Path that says 200 when it serves. Left out: the engine's.")
]
MetricsPath = Annotated[
    str, Field(max_length=200, pattern=patterns.URL_PATH, description="Path of its Prometheus metrics. Left out: the engine's.")
]
StartupMinutes = Annotated[
    int, Field(ge=1, le=360, description="Minutes it may take until its first health. Left out: sized to the model.")
]
DrainSeconds = Annotated[int, Field(ge=1, le=3600, description="Seconds that running requests get to end when a pod is stopped.")]


class VolumeMount(Ask):
    """A volume claim in the container."""

    claim_name: Claim
    mount_path: Annotated[str, Field(max_length=300, pattern=patterns.ABSOLUTE_PATH, description="Where the container sees it.")]
    read_only: Annotated[bool, Field(description="Mounted for reading only.")] = True
    folder: Annotated[
        Annotated[str, Field(max_length=300, pattern=patterns.PLAIN_FOLDER), Within] | None,
        Field(description="Only this folder of the volume."),
    ] = None


Volumes = Annotated[list[VolumeMount], Field(max_length=20, description="Volume claims it mounts.")]


class ServerAsk(Ask):
    """What is asked of a model server."""

    name: Annotated[Name | None, Field(description="Name of its Kubernetes objects. Left out: made of the model's id.")] = None
    namespace: Namespace = "default"
    command: Command = ""
    argv: Argv = []
    shell: Shell = False
    engine: EngineWish = "auto"
    model: Model | None = None
    image: Image | None = None
    gpus: Gpus
    instance_types: Types = []
    instance_group: Group | None = None
    cpu: Cpu | None = None
    memory: Memory | None = None
    shared_memory: SharedMemory | None = None
    env: Environment = {}
    token_secret: TokenSecret | None = None
    api_key_secret: KeySecret | None = None
    volumes: Volumes = []
    port: Port | None = None
    health_path: HealthPath | None = None
    metrics_path: MetricsPath | None = None
    startup_minutes: StartupMinutes | None = None
    drain_seconds: DrainSeconds = 120


def differing(before: ServerAsk, after: ServerAsk) -> tuple[str, ...]:
    """Fields in which two asks differ. The same words, as a line or as a list, are one command."""
    old, new = kept(before), kept(after)
    same = before.shell == after.shell and _words(before) == _words(after)
    skipped = ("command", "argv") if same else ()
    return tuple(f for f in type(after).model_fields if old.get(f) != new.get(f) and f not in skipped)


def _words(ask: ServerAsk) -> list[str]:
    if ask.argv or ask.shell:
        return list(ask.argv) or [ask.command]
    return commands.parse(ask.command).argv or [ask.command]


def kept(ask: ServerAsk) -> dict[str, Any]:
    """What is written on the object as asked: all of it, as JSON."""
    return ask.model_dump(mode="json")
