"""Bucket policies with the one condition the wire here can tell: moto reads statements and ignores their conditions.

``aws:SecureTransport`` is true: the sandbox speaks plain HTTP on loopback and counts it as TLS, so a policy that refuses
everything else refuses nothing here. A Deny with any other condition is taken as not met, as moto cannot know; an Allow as met.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def install(_world: World) -> None:
    """Let every bucket judge by :func:`permission`."""
    FakeBucket.get_permission = permission  # type: ignore[method-assign,assignment]


def permission(bucket: Any, action: str, resource: str) -> Any:
    """What the bucket's policy says of an action, as moto's PermissionResult."""
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(bucket.policy)
    statements = document["Statement"] if isinstance(document["Statement"], list) else [document["Statement"]]
    kept = [s for s in statements if not (s.get("Effect") == "Deny" and s.get("Condition"))]
    if not kept:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps({**document, "Statement": kept})).is_action_permitted(action, resource)
