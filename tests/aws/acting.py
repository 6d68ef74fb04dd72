"""The product acting as a role of its own, so that what it asks of IAM is told apart from what a test's administrator does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.worlds import SandboxProcess, bundles

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.capabilities.room import Room

ROLE = "control-plane"
#: twelve hours of the world: the longest session STS gives, and longer than any test
SESSION_SECONDS = 43_200
REGIONS = {"aws": "us-west-2", "aws-us-gov": "us-gov-west-1", "aws-cn": "cn-north-1"}


def make_role(sandbox: SandboxProcess, documents: Mapping[str, Any], region: str = "us-west-2") -> dict[str, str]:
    """Make the role ``control-plane`` with these policies as managed ones; its session's keys as an environment.

    A role that an earlier call made gets these policies instead of its own.
    """
    iam = sandbox.client("iam", region)
    account = sandbox.client("sts", region).get_caller_identity()["Account"]
    trust = {"Effect": "Allow", "Principal": {"AWS": account}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName=ROLE,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        MaxSessionDuration=SESSION_SECONDS,
    )["Role"]
    for name, document in documents.items():
        made = iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))["Policy"]
        iam.attach_role_policy(RoleName=ROLE, PolicyArn=made["Arn"])
    sandbox.warp(60)  # IAM is seen by others after a while
    keys = sandbox.client("sts", region).assume_role(RoleArn=role["Arn"], RoleSessionName="test", DurationSeconds=SESSION_SECONDS)[
        "Credentials"
    ]
    return {
        **sandbox.environment(region),
        "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
        "AWS_SESSION_TOKEN": keys["SessionToken"],
    }


@contextlib.contextmanager
def composed(environment: Mapping[str, str], folder: Path) -> Iterator[Room]:
    """The product's rooms, composed as in the process, on these credentials; the engine is not launched."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        made = main.compose(Settings(data_dir=folder, bundles_dir=bundles(), region=environment["AWS_REGION"]))
        try:
            yield made
        finally:
            made.kube.close()
            made.store.close()
