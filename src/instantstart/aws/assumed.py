"""AWS as another role: its credentials live in one object and are renewed there; they never enter the process's environment."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.credentials import RefreshableCredentials
from botocore.session import get_session

from instantstart.aws import models
from instantstart.aws.session import Aws
from instantstart.base import problems

#: role chaining allows an hour at most (STS AssumeRole)
_LIFE_SECONDS = 3600


def assume(aws: Aws, role_arn: str, region: str, session_name: str, external_id: str | None = None) -> Aws:
    """AWS in ``region`` as ``role_arn``. Raises Denied or Busy when the role may not be taken, on the spot and not at the first call."""
    asked: dict[str, Any] = {"RoleArn": role_arn, "RoleSessionName": session_name, "DurationSeconds": _LIFE_SECONDS}
    if external_id:
        asked["ExternalId"] = external_id

    def take() -> dict[str, str]:
        try:
            told = aws.read("sts", "assume_role", **asked)["Credentials"]
        except problems.Busy as problem:
            if problem.code != "aws.role_not_visible_yet":
                raise
            raise problems.Busy(
                "aws.role_refused",
                f"The role {role_arn} cannot be taken: it is not there, or does not trust this identity (yet).",
                hint="Let its owner write the trust that the plan of a dry run shows.",
                evidence=problem.evidence,
            ) from problem
        return {
            "access_key": told["AccessKeyId"],
            "secret_key": told["SecretAccessKey"],
            "token": told["SessionToken"],
            "expiry_time": told["Expiration"].isoformat(),
        }

    own = get_session()
    own._credentials = RefreshableCredentials.create_from_metadata(metadata=take(), refresh_using=take, method="sts-assume-role")
    return Aws(models.lean(boto3.Session(botocore_session=own, region_name=region)), region)
