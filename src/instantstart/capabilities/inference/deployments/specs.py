"""What may be asked of model deployments. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities import server_asks as server
from instantstart.capabilities.vocabulary import Ask, Change, Target

Range = Annotated[str, Field(max_length=50, pattern=patterns.SOURCE_RANGE)]
Exposure = Annotated[
    Literal["internal", "load_balancer"],
    Field(description="internal: reached inside the cluster, and through us. load_balancer: also by an address of its own."),
]
Scheme = Annotated[
    Literal["internal", "internet-facing"],
    Field(description="Of the load balancer: internal to the VPC, or open to the internet, which an administrator must approve."),
]
Ranges = Annotated[
    list[Range],
    Field(max_length=100, description="Addresses that may reach it; needed where it is internet-facing.", examples=[["203.0.113.0/24"]]),
]
OpenToEveryone = Annotated[bool, Field(description="Say again that source_ranges shall hold the whole internet (0.0.0.0/0 or ::/0).")]
Changes = Annotated[
    Literal["auto", "surge", "one_by_one"],
    Field(description="How pods are changed: surge makes a new one first; one_by_one where there is no room; auto: as there is room."),
]


class CreateModelDeployment(server.ServerAsk):
    """Ask for a model served by a container. Asked again under the same name, nothing is made twice."""

    replicas: server.Replicas = 1
    exposure: Exposure = "internal"
    scheme: Scheme = "internal"
    source_ranges: Ranges = []
    open_to_everyone: OpenToEveryone = False
    changes: Changes = "auto"


class UpdateModelDeployment(Change):
    """Ask for changes of a deployment: what is left out stays, null is the default again."""

    command: server.Command | None = None
    argv: server.Argv | None = None
    shell: server.Shell | None = None
    engine: server.EngineWish | None = None
    model: server.Model | None = None
    image: server.Image | None = None
    gpus: server.Gpus | None = None
    instance_types: server.Types | None = None
    instance_group: server.Group | None = None
    cpu: server.Cpu | None = None
    memory: server.Memory | None = None
    shared_memory: server.SharedMemory | None = None
    env: server.Environment | None = None
    set_env: Annotated[server.Environment | None, Field(description="Variables to add or to change; the others stay. Not with env.")] = None
    unset_env: Annotated[
        list[server.VariableName] | None, Field(max_length=200, description="Variables to take away; the others stay. Not with env.")
    ] = None
    token_secret: server.TokenSecret | None = None
    api_key_secret: server.KeySecret | None = None
    volumes: server.Volumes | None = None
    port: server.Port | None = None
    health_path: server.HealthPath | None = None
    metrics_path: server.MetricsPath | None = None
    startup_minutes: server.StartupMinutes | None = None
    drain_seconds: server.DrainSeconds | None = None
    replicas: server.Replicas | None = None
    exposure: Exposure | None = None
    scheme: Scheme | None = None
    source_ranges: Ranges | None = None
    open_to_everyone: OpenToEveryone | None = None
    changes: Changes | None = None

    def says(self, name: str) -> bool:
        """null is the default again."""
        return name not in ("set_env", "unset_env") or bool(getattr(self, name))

    def onto(self, present: dict[str, Any]) -> dict[str, Any]:
        """The whole ask that this makes of the present one."""
        given = self.model_dump(exclude_unset=True, exclude={"set_env", "unset_env"})
        fields = CreateModelDeployment.model_fields
        empty = {k for k, v in given.items() if v is None and not fields[k].is_required()}
        wanted = {k: fields[k].get_default(call_default_factory=True) if k in empty else v for k, v in given.items()}
        if wanted.get("argv") and "command" not in given:
            wanted["command"] = ""  # the one replaces the other
        if wanted.get("command") and "argv" not in given:
            wanted["argv"] = []
        if self.set_env or self.unset_env:
            kept = {name: value for name, value in (present.get("env") or {}).items() if name not in (self.unset_env or ())}
            wanted["env"] = {**kept, **(self.set_env or {})}
        return {**present, **wanted}


class ScaleModelDeployment(Ask):
    """Ask for another number of pods."""

    replicas: server.Replicas


class DeploymentTarget(Target, CreateModelDeployment):
    """model_deployment.create and .update with their place: all that is asked, and the name it got."""


class ScaleTarget(Target):
    """model_deployment.scale with its place."""

    namespace: str
    name: str
    replicas: int


class DeleteTarget(Target):
    """model_deployment.delete with its place."""

    namespace: str
    name: str


def subject(target: Any) -> str:
    """What an operation works on: one deployment."""
    return f"serving/{target.region}/{target.tag}/{target.namespace}/{target.name}"
