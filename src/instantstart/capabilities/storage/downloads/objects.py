"""The Job of a download, as objects. Its script is recipes/download/fetch.py, carried by a ConfigMap; any image with Python runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import names
from instantstart.capabilities.storage.downloads import specs
from instantstart.capabilities.storage.downloads.rules import TOKEN_KEY
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER
from instantstart.ensure.training import recipes

CONTAINER = "download"
SCRIPT = "download/fetch.py"
#: the script's word for "trying again will not help"
_FINAL_EXIT = 42
_TRIES = 3
#: a day: results do not vanish before they are seen
_KEPT_SECONDS = 86_400
_DATA, _STAGING, _CODE = "/data", "/staging", "/opt/instantstart"


@dataclass(frozen=True)
class Wanted:
    """One download: what was asked, what the hub said, and which try of which operation this is."""

    spec: specs.DownloadTarget
    learned: Mapping[str, Any]
    hub: str
    mark: str

    @classmethod
    def of(cls, spec: specs.DownloadTarget, learned: Mapping[str, Any], hub: str, mark: str) -> Wanted:
        """``mark`` tells the tries apart: it is a label, so it must be short and plain."""
        return cls(spec, learned, hub, mark[:63])

    @property
    def namespace(self) -> str:
        return self.spec.namespace

    @property
    def name(self) -> str:
        """One name for each folder of each volume: two requests for it are one job."""
        place = f"{self.spec.namespace}/{self.spec.claim_name}/{self.spec.place}"
        return f"download-{names.slug(self.spec.repository, 40)}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"

    def resources(self) -> tuple[dict[str, Any], ...]:
        """The script, then the Job."""
        return recipes.config_map(self._code, self.namespace, SCRIPT), self._job()

    @property
    def _code(self) -> str:
        return f"instantstart-download-{recipes.digest(SCRIPT)}"

    def _arguments(self) -> list[str]:
        spec = self.spec
        arguments = ["python3", f"{_CODE}/fetch.py", "--hub", self.hub, "--kind", spec.kind, "--repository", spec.repository]
        arguments += ["--revision", spec.revision, "--commit", str(self.learned["commit"]), "--workers", str(spec.workers)]
        arguments += [text for pattern in spec.include for text in ("--include", pattern)]
        arguments += [text for pattern in spec.exclude for text in ("--exclude", pattern)]
        arguments += ["--destination", f"{_DATA}/{spec.place}"]
        return [*arguments, "--staging", _STAGING] if self.learned["on_s3"] else arguments

    def _job(self) -> dict[str, Any]:
        labels = {MANAGED_BY: MANAGER, "app.kubernetes.io/name": "model-download", names.OPERATION_TAG: self.mark}
        policy = {"action": "FailJob", "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [_FINAL_EXIT]}}
        evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "backoffLimit": _TRIES,
                "ttlSecondsAfterFinished": _KEPT_SECONDS,
                "podFailurePolicy": {"rules": [policy, evicted]},
                "template": {"metadata": {"labels": labels}, "spec": self._pod()},
            },
        }

    def _pod(self) -> dict[str, Any]:
        spec = self.spec
        resources = {"cpu": spec.cpu, "memory": spec.memory}
        token = {"secretKeyRef": {"name": spec.token_secret, "key": TOKEN_KEY}}
        return {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": CONTAINER,
                    "image": spec.image,
                    "command": self._arguments(),
                    "env": [{"name": "HF_TOKEN", "valueFrom": token}] if spec.token_secret else [],
                    "resources": {"requests": resources, "limits": resources},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [
                        {"name": "data", "mountPath": _DATA},
                        {"name": "staging", "mountPath": _STAGING},
                        {"name": "code", "mountPath": _CODE, "readOnly": True},
                    ],
                }
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": spec.claim_name}},
                {"name": "staging", "emptyDir": {}},
                {"name": "code", "configMap": {"name": self._code}},
            ],
        }
