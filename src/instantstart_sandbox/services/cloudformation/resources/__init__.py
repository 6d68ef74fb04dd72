"""The resource types the sandbox can make, one handler class each."""

from __future__ import annotations

from instantstart_sandbox.services.cloudformation.resources import (
    ec2_compute,
    ec2_network,
    ec2_security,
    eks,
    iam,
    operations,
    s3,
    sagemaker,
)
from instantstart_sandbox.services.cloudformation.resources.handler import Handler

HANDLERS: dict[str, Handler] = {
    handler.type: handler()
    for module in (ec2_compute, ec2_network, ec2_security, eks, iam, operations, s3, sagemaker)
    for handler in module.HANDLERS
}
