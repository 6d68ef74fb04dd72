"""(e) The same kubectl script on both sides, and the product's own copy of a kind against a fresh list."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import yaml
from tests.differential.grounds import ground, wait
from tests.differential.sides import Side

from instantstart.base.clock import Clock
from instantstart.kube.cache import Reflector, Source
from instantstart.kube.cluster_ref import ClusterRef
from instantstart.kube.connection import Connection
from instantstart.kube.shapes import Pod

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: nobody
      containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
"""
CHANGED = MANIFEST.replace("nginx:1", "nginx:2").replace("red", "blue")

#: (arguments, standard input); each one's output and exit code are compared
SCRIPT: tuple[tuple[str, str | None], ...] = (
    ("diff -f -", MANIFEST),
    ("apply -f -", MANIFEST),
    ("apply -f -", MANIFEST),
    ("diff -f -", CHANGED),
    ("apply -f - --dry-run=server", CHANGED),
    ("apply -f -", CHANGED),
    ("apply --server-side -f -", MANIFEST),
    ("apply --server-side --force-conflicts -f -", MANIFEST),
    ("apply --server-side --field-manager other -f -", CHANGED),
    ("get configmap settings -o jsonpath={.data.colour}", None),
    ("get deployment web -o name", None),
    ("get service web", None),
    ("get configmap,service -l app=none", None),
    ("get configmap missing", None),
    ("get gadgets", None),
    ("scale deployment web --replicas 3", None),
    ("scale deployment web --current-replicas 7 --replicas 1", None),
    ("wait deployment web --for jsonpath={.spec.replicas}=3 --timeout 5s", None),
    ("rollout status deployment web --watch=false", None),
    ("rollout history deployment web", None),
    ("set image deployment web c=nginx:5", None),
    ("rollout pause deployment web", None),
    ("rollout undo deployment web", None),
    ("rollout resume deployment web", None),
    ("label configmap settings a=b", None),
    ("label configmap settings a=c", None),
    ("label configmap settings a=c --overwrite", None),
    ("annotate configmap settings note=text", None),
    ('patch configmap settings --type merge -p {"data":{"colour":"green"}}', None),
    ('patch configmap settings --type json -p [{"op":"remove","path":"/data/none"}]', None),
    ('patch configmap settings -p {"data":{"size":"5"}}', None),
    ("get configmap settings --show-labels --no-headers", None),
    ("create -f -", MANIFEST),
    ("replace -f -", CHANGED),
    ("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: 5}\n"),
    ("apply -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ncolor: red\n"),
    ("apply -f -", "apiVersion: example.com/v9\nkind: Nothing\nmetadata: {name: settings}\n"),
    ("explain deployment.spec.strategy --recursive", None),
    ("explain pod.spec.containers.image", None),
    ("create configmap made --from-literal=colour=red", None),
    ("create configmap made --from-literal=colour=red", None),
    ("create deployment made --image=nginx:1 --replicas=0 --port=80", None),
    ("get deployment made -o jsonpath={.spec}", None),
    ("create job made --image=busybox -- sh", None),
    ("get job made -o jsonpath={.spec.template.spec}", None),
    ("create secret generic made --from-literal=word=x", None),
    ("create service clusterip made --clusterip=None", None),
    ("create quota made --hard=pods=none", None),
    ("create role made --verb=get --resource=pods", None),
    ("create rolebinding made --role=made --serviceaccount=default:default", None),
    ("get rolebinding made -o jsonpath={.roleRef}{.subjects}", None),
    ("create poddisruptionbudget made --selector=app=a --min-available=50%", None),
    ("create ingress made --class=nginx --rule=a.example/x*=svc:80", None),
    ("get ingress made -o jsonpath={.spec}", None),
    ("auth can-i create pods", None),
    ("delete configmap settings --wait=false", None),
    ("delete configmap settings", None),
    ("delete deployment web --cascade=foreground --timeout 20s", None),
    ("delete service web --ignore-not-found", None),
    ("delete service web --ignore-not-found", None),
)


def told(side: Side, home: Path) -> list[str]:
    """What kubectl says to each line of the script, with what must differ made equal."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    environment = {"KUBECONFIG": str(side.kubeconfig), "HOME": str(home), "PATH": os.environ["PATH"], "KUBECTL_EXTERNAL_DIFF": "diff -u"}
    said = []
    with ground(side) as (_, namespace):
        for arguments, stdin in SCRIPT:
            command = [program, "-n", namespace, *arguments.split(" ")]
            done = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, timeout=90, check=False)
            text = f"{done.stdout}{done.stderr}".replace(namespace, "<ns>").replace(str(home), "<home>").replace(side.url, "<server>")
            said.append(f"$ kubectl {arguments}\n[{done.returncode}]\n{_plain(text)}")
    return said


def _plain(text: str) -> str:
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>", text)
    text = re.sub(r"/tmp/\S*(LIVE|MERGED)-\d+", r"<\1>", text)
    text = re.sub(r'resourceVersion: "\d+"', 'resourceVersion: "<revision>"', text)
    text = re.sub(r"\bweb-[0-9a-f]{6,10}\b", "web-<hash>", text)
    return re.sub(r"\b\d+(s|m|m\d+s)\b(?= |$)", "<age>", text, flags=re.MULTILINE)


@pytest.mark.timeout(900)
def test_kubectl_says_the_same_on_both_sides(real: Side, ours: Side, tmp_path: Path) -> None:
    wanted, given = told(real, tmp_path), told(ours, tmp_path)
    differing = [f"--- real\n{a}\n--- ours\n{b}" for a, b in zip(wanted, given, strict=True) if a != b]
    assert not differing, "\n".join(differing)


def token_of(side: Side, client: httpx2.Client, namespace: str) -> str:
    """A bearer token for the product: the side's own, or (we enter the reference by certificate) that of a service account made for it."""
    if side.headers.get("Authorization"):
        return side.headers["Authorization"].removeprefix("Bearer ")
    accounts, bindings = (
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    )
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "product", "namespace": namespace}
    client.post(accounts, json={"metadata": {"name": "product"}})
    client.post(bindings, json={"metadata": {"name": "product"}, "roleRef": role, "subjects": [subject]})
    made = client.post(f"{accounts}/product/token", json={"spec": {"expirationSeconds": 600}})
    assert made.status_code == 201, made.text
    return str(made.json()["status"]["token"])


@contextmanager
def copied(side: Side, path: str, token: str) -> Iterator[Reflector[Pod]]:
    """The product's copy of a path, kept in a thread."""
    config = yaml.safe_load(side.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = side.authority(config)
    connection = Connection(ClusterRef("arn:test", side.name, "region-1", side.url, authority), lambda ref: token, Clock())
    reflector = Reflector(connection, Source(path, Pod, lambda pod: pod))
    loop = asyncio.new_event_loop()
    task = loop.create_task(reflector.run())

    def live() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield reflector
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        loop.close()
        connection.close()


def the_copy_is_the_list(side: Side) -> None:
    """Pods come, change and go; the product's copy is the list."""
    with ground(side) as (client, namespace):
        path = f"/api/v1/namespaces/{namespace}/pods"
        with copied(side, path, token_of(side, client, namespace)) as reflector:
            pods_come_and_go(client, namespace, reflector)


def pods_come_and_go(client: httpx2.Client, namespace: str, reflector: Reflector[Pod]) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    wait(lambda: client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default").status_code == 200, "no service account")
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
    for number in range(30):
        made = client.post(path, json={"metadata": {"name": f"p{number}"}, "spec": spec})
        assert made.status_code == 201, made.text
        merge = {"Content-Type": "application/merge-patch+json"}
        client.patch(f"{path}/p{number}", json={"metadata": {"labels": {"x": secrets.token_hex(2)}}}, headers=merge)
        if number % 3 == 0:
            client.delete(f"{path}/p{number}")

    def equal() -> bool:
        listed = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in client.get(path).json()["items"]}
        return {key[1]: pod.metadata.resource_version for key, pod in reflector.snapshot().items.items()} == listed

    wait(equal, "the copy is not the list")
    assert reflector.snapshot().problem is None


def test_the_products_copy_is_the_list_of_the_sandbox(ours: Side) -> None:
    the_copy_is_the_list(ours)


def test_the_products_copy_is_the_list_of_the_real_server(real: Side) -> None:
    the_copy_is_the_list(real)
