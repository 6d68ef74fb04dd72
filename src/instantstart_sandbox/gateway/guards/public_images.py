"""Amazon Linux by its public parameters, in every region: moto knows some regions' parameters, and none of the images they name.

Parameters: AWS Systems Manager user guide, "Calling AMI public parameters" (/aws/service/ami-amazon-linux-latest/...).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Any

from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter, ssm_backends

from instantstart_sandbox.gateway.guards.backends import ec2
from instantstart_sandbox.gateway.registry import Context

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_SINCE = dt.datetime(2025, 1, 1, tzinfo=dt.UTC)
_PREFIX = "/aws/service/ami-amazon-linux-latest/"
_KNOWN = tuple(
    f"{_PREFIX}al2023-ami-{flavour}-{machine}"
    for flavour in ("kernel-default", "minimal-kernel-default")
    for machine in ("x86_64", "arm64")
)


def install(world: World) -> None:
    """Before a public parameter is read, it and its image are there."""
    world.registry.guard("ssm", "GetParameter")(lambda ctx, params, _: _seeded(ctx, [params.get("Name", "")]))
    world.registry.guard("ssm", "GetParameters")(lambda ctx, params, _: _seeded(ctx, params.get("Names") or []))


def _seeded(ctx: Context, names: list[str]) -> None:
    for name in names:
        if name.startswith(_PREFIX):
            _seed(ctx, name)


def _seed(ctx: Context, name: str) -> None:
    parameters = ssm_backends[ctx.account][ctx.region]._parameters
    if not parameters[name] and name in _KNOWN:
        parameters[name].append(_parameter(ctx, name))
    if parameters[name]:
        image, backend = str(parameters[name][-1].value), ec2(ctx)
        if image not in backend.amis:
            backend.amis[image] = _image(backend, image, name)


def _parameter(ctx: Context, name: str) -> Any:
    image = "ami-" + hashlib.sha256(f"{ctx.region}{name}".encode()).hexdigest()[:17]
    kind: Any = Parameter  # moto calls it abstract, and makes it all the same
    return kind(ctx.account, name, image, "String", None, None, None, _SINCE, version=1, data_type="aws:ec2:image")


def _image(backend: Any, image: str, name: str) -> Any:
    return Ami(
        backend,
        image,
        name=name.removeprefix(_PREFIX),
        owner_id="137112412989",
        owner_alias="amazon",
        public=True,
        virtualization_type="hvm",
        architecture=name.rpartition("-")[2],
        root_device_type="ebs",
        root_device_name="/dev/xvda",
    )
