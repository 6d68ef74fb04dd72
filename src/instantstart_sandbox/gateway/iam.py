"""Who a caller is, whether roles are visible yet, and (on request) what a caller may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moto.iam.models import IAMBackend, iam_backends
from moto.sts.models import sts_backends

from instantstart_sandbox.gateway import wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

ADMIN_USER = "instantstart-admin"


class Iam:
    """Reads moto's IAM and STS; keeps no state of its own."""

    def __init__(self, world: World) -> None:
        self._world = world

    def backend(self, partition: str = "aws") -> IAMBackend:
        """moto's IAM of this account in a partition."""
        found: IAMBackend = iam_backends[self._world.account][partition]
        return found

    def seed(self) -> None:
        """The admin user with its access key."""

    def identify(self, access_key: str, partition: str) -> str:
        """The ARN of the user or role behind an access key; AwsError when there is none."""
        if not access_key:
            return "anonymous"
        for user in self.backend(partition).users.values():
            if any(key.access_key_id == access_key for key in user.access_keys):
                return str(user.arn)
        for role in sts_backends[self._world.account][partition].assumed_roles:
            if role.access_key_id == access_key:
                return str(role.role_arn)
        if self._world.settings.accept_unknown_keys:
            return f"arn:{partition}:iam::{self._world.account}:root"
        raise AwsError("InvalidClientTokenId", "The security token included in the request is invalid.", 403)

    def authorize(self, context: Context, call: wire.Call, environ: wire.Environ, body: bytes) -> None:
        """AccessDenied when enforcement is on and the caller may not do this."""

    def visible(self, role_arn: str) -> bool:
        """Whether other services see the role by now."""
        partition = role_arn.split(":")[1]
        for role in self.backend(partition).roles.values():
            if role.arn == role_arn:
                made: float = role.create_date.replace(tzinfo=None).timestamp()
                return self._world.clock.now() - made >= self._world.settings.iam_delay
        return False

    def verify_presigned(self, url: str, cluster_name: str) -> str | None:
        """See ``World.verify_presigned``."""
        return None
