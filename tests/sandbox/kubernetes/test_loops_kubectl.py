"""kubectl on a living cluster: what people do with workloads, logs and nodes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.kubernetes.loops_bench import ARN, FakeAws, pod_spec, workload

from instantstart_sandbox.kubernetes.controllers import start_controllers
from instantstart_sandbox.kubernetes.server import KubernetesServer
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.seams import Identity, Instance

Object = dict[str, Any]
Kubectl = Callable[..., str]
RUN = "sandbox.instantstart.dev/run"


class OpenAws(FakeAws):
    """AWS with two machines and one administrator."""

    def __init__(self) -> None:
        super().__init__()
        common: dict[str, Any] = {
            "cluster_name": "ml",
            "group": "cpu",
            "instance_type": "ml.m5.4xlarge",
            "status": "Running",
            "zone": "us-west-2b",
        }
        common |= {"zone_id": "usw2-az2", "capacity_type": "OnDemand", "joined": True}
        self.machines = [Instance(instance_id=f"i-{n}", private_ip=f"10.1.2.{n}", **common) for n in (1, 2)]

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        return Identity("arn:admin", "admin", (), (("AmazonEKSClusterAdminPolicy", ()),))


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    server = KubernetesServer(tmp_path / "kubernetes", Clock(rate=60), OpenAws(), start_controllers)
    endpoint = server.create_cluster(ARN, "demo", "us-west-2", "1.33")
    (tmp_path / "ca.crt").write_text(endpoint.ca_pem)
    cluster = {"server": endpoint.url, "certificate-authority": str(tmp_path / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": "k8s-aws-v1.x"}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "admin"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    environment = {"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin"}

    def run(*arguments: str, stdin: Object | None = None, code: int = 0) -> str:
        text = json.dumps(stdin) if stdin else None
        done = subprocess.run([program, *arguments], input=text, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    yield run
    crashes = list(server.cluster(ARN).crashes)
    server.close()
    assert crashes == []


def of(kind: str, version: str, obj: Object) -> Object:
    return {"apiVersion": version, "kind": kind, **obj}


def test_a_deployment_rolls_out_its_nodes_drain_and_its_logs_are_read(kubectl: Kubectl) -> None:
    kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=30s")
    kubectl("apply", "-f", "-", stdin=of("Deployment", "apps/v1", workload("Deployment", "web", replicas=3)))
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    kubectl("set", "image", "deploy/web", "main=busybox:2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    kubectl("rollout", "undo", "deploy/web")
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=30s")
    assert "is not run, this container is simulated" in kubectl("logs", "deploy/web")
    described = kubectl("describe", "node", "hyperpod-i-1")
    assert "node.kubernetes.io/instance-type=ml.m5.4xlarge" in described
    assert "KubeletReady" in described
    kubectl("drain", "hyperpod-i-1", "--ignore-daemonsets", "--timeout=30s")
    assert "SchedulingDisabled" in kubectl("get", "node", "hyperpod-i-1")
    kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=30s")
    assert "hyperpod-i-1" not in kubectl("get", "pods", "-o", "wide")


def test_a_job_with_a_process_is_followed_to_its_end(kubectl: Kubectl) -> None:
    kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=30s")
    command = ["sh", "-c", "for i in 1 2 3; do echo step $i; sleep 0.2; done"]
    job = workload("Job", "train", annotations={RUN: "process"}, pod=pod_spec(restartPolicy="Never", container={"command": command}))
    kubectl("apply", "-f", "-", stdin=of("Job", "batch/v1", job))
    kubectl("wait", "pod", "-l", "job-name=train", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    assert kubectl("logs", "-f", "job/train") == "step 1\nstep 2\nstep 3\n"
    kubectl("wait", "job/train", "--for=condition=Complete", "--timeout=30s")
    assert kubectl("logs", "job/train", "--tail=1") == "step 3\n"
    kubectl("delete", "job", "train", "--cascade=foreground", "--timeout=30s")
    assert "No resources found" in kubectl("get", "pods")


def test_a_namespace_is_deleted_with_all_in_it(kubectl: Kubectl) -> None:
    kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=30s")
    kubectl("apply", "-f", "-", stdin=of("Namespace", "v1", {"metadata": {"name": "team"}}))
    made = of("Deployment", "apps/v1", workload("Deployment", "web", replicas=1))
    made["metadata"]["namespace"] = "team"
    kubectl("apply", "-f", "-", stdin=made)
    kubectl("rollout", "status", "deploy/web", "-n", "team", "--timeout=30s")
    kubectl("delete", "namespace", "team", "--timeout=30s")
    kubectl("get", "namespace", "team", code=1)
