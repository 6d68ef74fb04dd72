"""A real kubectl at home in the sandbox: the commands people and runbooks use."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .objects import deployment, pod, widget, widget_definition

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., str]:
    def write(*objects: object) -> str:
        path = tmp_path / "manifest.json"
        path.write_text("\n---\n".join(json.dumps(o) for o in objects))
        return str(path)

    return write


def test_apply_diff_and_server_side_apply(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    path = manifest(deployment())
    assert kubectl("apply", "-f", path).stdout == "deployment.apps/web created\n"
    assert kubectl("apply", "-f", path).stdout == "deployment.apps/web unchanged\n"
    assert kubectl("diff", "-f", path).stdout == ""
    path = manifest(deployment(replicas=4))
    difference = kubectl("diff", "-f", path, code=1).stdout
    assert "-  replicas: 2" in difference
    assert "+  replicas: 4" in difference
    assert kubectl("apply", "-f", path).stdout == "deployment.apps/web configured\n"
    assert kubectl("apply", "--server-side", "-f", path).stdout == "deployment.apps/web serverside-applied\n"
    path = manifest(deployment(replicas=5))
    conflict = kubectl("apply", "--server-side", "--field-manager=other", "-f", path, code=1).stderr
    assert 'conflict with "kubectl": .spec.replicas' in conflict
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", path)
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}").stdout == "5"


def test_strict_validation_by_default(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", **pod()}
    body["spec"]["colour"] = "red"
    assert 'strict decoding error: unknown field "spec.colour"' in kubectl("apply", "-f", manifest(body), code=1).stderr


def test_everyday_verbs(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    kubectl("apply", "-f", manifest(deployment(), {"apiVersion": "v1", "kind": "Pod", **pod()}))
    kubectl("scale", "deploy/web", "--replicas=7")
    assert "0/7" in kubectl("get", "deploy").stdout
    kubectl("label", "pod", "a", "tier=x")
    assert kubectl("get", "pods", "-l", "tier=x", "-o", "name").stdout == "pod/a\n"
    kubectl("annotate", "pod", "a", "note=hello")
    kubectl("set", "image", "deploy/web", "c=nginx:2")
    kubectl("patch", "deploy", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s"}]}}}}')
    assert kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}").stdout == "s nginx:2"
    described = kubectl("describe", "pod", "a").stdout
    assert "note: hello" in described
    assert "Status:           Pending" in described
    kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/a", "--timeout=10s")
    assert "timed out waiting" in kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=1s", code=1).stderr
    assert "Waiting for deployment" in kubectl("rollout", "status", "deploy/web", "--timeout=1s", code=1).stdout
    kubectl("delete", "pod", "a", "--timeout=10s")
    assert 'pods "a" not found' in kubectl("get", "pod", "a", code=1).stderr


def test_discovery_and_explain(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    resources = kubectl("api-resources").stdout
    assert re.search(r"^deployments +deploy +apps/v1 +true +Deployment$", resources, re.MULTILINE)
    explained = kubectl("explain", "pod.spec.restartPolicy").stdout
    assert "Restart policy for all containers within the pod" in explained
    kubectl("apply", "-f", manifest(widget_definition()))
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s")
    kubectl("apply", "-f", manifest(widget(color="red")))
    assert kubectl("get", "wg").stdout.split() == ["NAME", "COLOR", "w", "red"]
    assert "widget.example.com/w" in kubectl("get", "all").stdout
    assert "FIELD: color" in kubectl("explain", "widget.spec.color").stdout


def test_get_watch_prints_changes(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    kubectl("apply", "-f", manifest({"apiVersion": "v1", "kind": "Pod", **pod()}))
    watched = kubectl("get", "pods", "-w", "--request-timeout=2s", code=None).stdout
    assert watched.splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert watched.splitlines()[1].split()[:4] == ["a", "0/1", "Pending", "0"]


#: what kubectl makes from words and sends as protobuf
CREATED = (
    "namespace team",
    "configmap a --from-literal=colour=red",
    "secret generic a --from-literal=word=x",
    "serviceaccount a",
    "deployment a --image=nginx:1 --replicas=0 --port=80 -- sleep 1",
    "job a --image=busybox -- sh -c exit",
    "cronjob a --image=busybox --schedule=@daily",
    "service clusterip a --tcp=80:http",
    "service nodeport b --tcp=80:8080",
    "quota a --hard=cpu=1500m,pods=3",
    "poddisruptionbudget a --selector=app=a --min-available=50%",
    "priorityclass a --value=5 --description=x",
    "role a --verb=get,list --resource=pods --resource-name=b",
    "clusterrole a --verb=get --non-resource-url=/metrics",
    "rolebinding a --role=a --serviceaccount=default:a",
    "ingress a --class=nginx --rule=a.example/x*=svc:80,tls=cert",
)


@pytest.mark.parametrize("words", CREATED, ids=lambda words: words.split(" ")[0])
def test_what_is_created_by_protobuf_is_what_its_yaml_makes(kubectl: Kubectl, words: str) -> None:
    kind, *rest = words.split(" ")
    at = rest.index("--") if "--" in rest else len(rest)
    line = ["create", kind, *rest[:at]]
    rendered = json.loads(kubectl(*line, "--dry-run=client", "-o", "json", *rest[at:]).stdout)
    name = kubectl(*line, "-o", "name", *rest[at:]).stdout.strip()
    made = json.loads(kubectl("get", name, "-o", "json").stdout)
    rendered["metadata"]["name"] += "-yaml"
    kubectl("create", "-f", "-", stdin=json.dumps(rendered))
    again = json.loads(kubectl("get", f"{name}-yaml", "-o", "json").stdout)
    assert _said(made, own=("metadata", "status")) == _said(again, own=("metadata", "status"))


#: what the server gives each object anew, or makes of its name
_ANEW = (
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "uid",
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


def _said(obj: Any, own: tuple[str, ...] = ()) -> Any:
    """What was asked, without nulls (a plain JSON object has one where Go has a nil)."""
    if isinstance(obj, dict):
        return {key: _said(value) for key, value in obj.items() if key not in (*_ANEW, *own) and value is not None}
    return [_said(item) for item in obj] if isinstance(obj, list) else obj


def test_tokens_reviews_and_evictions_by_protobuf(kubectl: Kubectl, manifest: Callable[..., str]) -> None:
    assert kubectl("create", "token", "default").stdout.count(".") == 2
    assert kubectl("auth", "can-i", "create", "pods").stdout.strip() == "yes"
    assert "Username" in kubectl("auth", "whoami").stdout
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    alone = pod()
    alone["spec"]["nodeName"] = "n"
    kubectl("apply", "-f", manifest(node, {"apiVersion": "v1", "kind": "Pod", **alone}))
    told = kubectl("drain", "n", "--force", "--grace-period=0", "--timeout=20s")
    assert "evicting pod default/a" in told.stderr + told.stdout
    assert "node/n drained" in told.stdout
