"""Service principals and trust documents. Principals keep one suffix in every partition (IAM user guide), hosts do not."""

from __future__ import annotations

import json
from typing import Any

_PRINCIPAL_SUFFIX = ".amazonaws.com"


def service(name: str) -> str:
    """The principal of a service: ``service("sagemaker")``."""
    return name + _PRINCIPAL_SUFFIX


def service_trust(name: str) -> dict[str, Any]:
    """A trust document for one AWS service."""
    return _document({"Effect": "Allow", "Principal": {"Service": service(name)}, "Action": "sts:AssumeRole"})


def web_identity_trust(provider_arn: str, issuer: str, namespace: str, service_account: str) -> dict[str, Any]:
    """A trust document for one Kubernetes service account (IRSA): audience and subject both bound."""
    host = issuer.removeprefix("https://")
    condition = {
        "StringEquals": {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": f"system:serviceaccount:{namespace}:{service_account}"}
    }
    return _document(
        {"Effect": "Allow", "Principal": {"Federated": provider_arn}, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}
    )


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    """A policy document of some statements."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(actions: list[str], resources: list[str] | str) -> dict[str, Any]:
    """One allowing statement."""
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def same(one: Any, other: Any) -> bool:
    """Whether two policy documents say the same, whatever their key order."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _document(statement: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement]}
