"""What EKS's two webhooks put into a new pod: the role of its service account, by token (annotation) or by the pod identity agent.

Names of variables, paths and volumes are those of the EKS user guide. A pod that was made before keeps what it had: it has to be restarted.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

ANNOTATION = "eks.amazonaws.com/role-arn"
_TOKEN_SECONDS = 86400
_WEB = ("aws-iam-token", "/var/run/secrets/eks.amazonaws.com/serviceaccount", "token", "sts.amazonaws.com")
_AGENT = (
    "eks-pod-identity-token",
    "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount",
    "eks-pod-identity-token",
    "pods.eks.amazonaws.com",
)
_CREDENTIALS = "http://169.254.170.23/v1/credentials"


def inject(spec: Object, account: Object, associated: bool) -> None:
    """Complete a pod's spec in place. ``account`` is its ServiceAccount; ``associated``: it has a pod identity association in force."""
    role = (account["metadata"].get("annotations") or {}).get(ANNOTATION)
    if role:
        file = f"{_WEB[1]}/{_WEB[2]}"
        _give(spec, _WEB, {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_STS_REGIONAL_ENDPOINTS": "regional"})
    if associated:
        file = f"{_AGENT[1]}/{_AGENT[2]}"
        _give(spec, _AGENT, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": _CREDENTIALS, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file})


def _give(spec: Object, token: tuple[str, str, str, str], variables: dict[str, str]) -> None:
    volume, path, file, audience = token
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    for container in containers:
        env = container.setdefault("env", [])
        known = {e.get("name") for e in env}
        env.extend({"name": name, "value": value} for name, value in variables.items() if name not in known)
        mounts = container.setdefault("volumeMounts", [])
        if not any(m.get("mountPath") == path for m in mounts):
            mounts.append({"name": volume, "readOnly": True, "mountPath": path})
    volumes = spec.setdefault("volumes", [])
    if not any(v.get("name") == volume for v in volumes):
        projected = {"serviceAccountToken": {"audience": audience, "expirationSeconds": _TOKEN_SECONDS, "path": file}}
        volumes.append({"name": volume, "projected": {"sources": [projected], "defaultMode": 420}})
