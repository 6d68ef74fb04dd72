"""Scheduling, the kubelet, volumes, services and disruption, on a cluster with nodes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec, workload

RUN = "sandbox.instantstart.dev/run"
Object = dict[str, Any]


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": pod_spec(**spec)}


def condition(obj: Object, kind: str) -> Object:
    return next((c for c in obj["status"].get("conditions") or [] if c["type"] == kind), {})


def container(bench: Bench, name: str, space: str = "default") -> Object:
    found: Object = bench.get("pods", name, space)["status"]["containerStatuses"][0]
    return found


async def logs(bench: Bench, name: str, **params: str) -> str:
    return b"".join([c async for c in bench.cluster.logs("default", name, "main", params)]).decode()


async def real(bench: Bench, name: str, phase: str) -> Object:
    """Let real time pass until a pod with a process is in a phase."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        await bench.wait(1)
        found = bench.get("pods", name, "default")
        if found["status"]["phase"] == phase:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(bench.get("pods", name, "default")["status"])


# ---------------------------------------------------------------------- scheduling


def test_a_pod_without_a_place_says_why_and_goes_when_there_is_one(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create("pods", pod("p", container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}))
        await bench.settle()
        assert condition(bench.get("pods", "p", "default"), "PodScheduled")["message"] == "no nodes available to schedule pods"
        await bench.machine(kind="ml.g5.8xlarge")
        said = condition(bench.get("pods", "p", "default"), "PodScheduled")
        assert said["reason"] == "Unschedulable"
        assert said["message"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available:")
        assert ("FailedScheduling", said["message"]) in bench.events()
        plugin = workload("DaemonSet", "nvidia-device-plugin", pod=pod_spec("nvidia/k8s-device-plugin:v0"))
        await bench.client.create("daemonsets.apps", plugin)
        await bench.wait(30)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Running"
        await bench.client.create("pods", pod("q", container={"resources": {"limits": {"nvidia.com/gpu": "1"}}}))
        await bench.wait(10)
        assert "nodeName" not in bench.get("pods", "q", "default")["spec"]
        await bench.client.delete("pods", "p", "default")
        await bench.wait(40)
        assert bench.get("pods", "q", "default")["status"]["phase"] == "Running"

    on_bench(tmp_path, test)


def test_selectors_taints_and_gates_hold_pods(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.m5.2xlarge", taints=(("team", "a", "NoSchedule"),))
        await bench.machine("i-0aaaaaaaaaaaaaaa2", "ml.m5.2xlarge", labels={"pool": "x"})
        picky = {"nodeSelector": {"pool": "y"}}
        await bench.client.create("pods", pod("picky", **picky))
        await bench.client.create("pods", pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
        tolerant: Object = {
            "tolerations": [{"key": "team", "operator": "Exists"}],
            "nodeSelector": {"kubernetes.io/hostname": "hyperpod-i-0aaaaaaaaaaaaaaa1"},
        }
        await bench.client.create("pods", pod("tolerant", **tolerant))
        await bench.wait(10)
        assert condition(bench.get("pods", "picky", "default"), "PodScheduled")["message"].startswith(
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {team: a}."
        )
        assert condition(bench.get("pods", "gated", "default"), "PodScheduled")["reason"] == "SchedulingGated"
        assert bench.get("pods", "tolerant", "default")["spec"]["nodeName"] == "hyperpod-i-0aaaaaaaaaaaaaaa1"
        await bench.client.patch("pods", "gated", {"spec": {"schedulingGates": None}}, "default")
        await bench.wait(10)
        assert bench.get("pods", "gated", "default")["status"]["phase"] == "Running"

    on_bench(tmp_path, test)


# ---------------------------------------------------------------------- kubelet


def test_a_pod_becomes_ready_step_by_step(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        await bench.client.create("pods", pod("p", container={"readinessProbe": {"initialDelaySeconds": 20, "tcpSocket": {"port": 80}}}))
        await bench.settle()
        found = bench.get("pods", "p", "default")
        assert found["status"]["phase"] == "Pending"
        assert container(bench, "p")["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await bench.wait(6)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Running"
        assert condition(bench.get("pods", "p", "default"), "Ready")["reason"] == "ContainersNotReady"
        await bench.wait(20)
        found = bench.get("pods", "p", "default")
        assert condition(found, "Ready")["status"] == "True"
        assert found["status"]["podIP"].startswith("127.")
        assert found["status"]["hostIP"] == "10.1.2.10"
        reasons = [r for r, _ in bench.events()]
        assert {"Scheduled", "Pulling", "Pulled", "Created", "Started"} <= set(reasons)
        assert "is not run, this container is simulated" in await logs(bench, "p")

    on_bench(tmp_path, test)


def test_a_node_that_somebody_wrote_has_no_kubelet(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.client.create("nodes", {"metadata": {"name": "paper"}})
        await bench.client.create("pods", pod("p", nodeName="paper"))
        await bench.wait(60)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Pending"

    on_bench(tmp_path, test)


def test_a_crashing_container_is_restarted_ever_more_slowly(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        await bench.client.create("pods", pod("p", {RUN: "exit 7", "sandbox.instantstart.dev/output": "starting\nfailing"}))
        await bench.wait(11)
        status = container(bench, "p")
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["state"]["waiting"]["message"].startswith("back-off 10s restarting failed container=main pod=p_default(")
        assert status["lastState"]["terminated"]["exitCode"] == 7
        assert status["restartCount"] == 1
        await bench.wait(60)
        assert container(bench, "p")["restartCount"] == 3
        assert "failing" in await logs(bench, "p", previous="true")
        assert any(r == "BackOff" for r, _ in bench.events())

    on_bench(tmp_path, test)


def test_out_of_memory_and_missing_images_are_told_as_such(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        await bench.client.create("pods", pod("oom", {RUN: "oom after 3"}, restartPolicy="Never"))
        await bench.client.create("pods", pod("gone", image="nowhere.invalid/x:1"))
        await bench.wait(8)
        assert container(bench, "gone")["state"]["waiting"]["reason"] == "ErrImagePull"
        await bench.wait(20)
        ended = container(bench, "oom")["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        assert bench.get("pods", "oom", "default")["status"]["phase"] == "Failed"
        assert container(bench, "gone")["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert bench.get("pods", "gone", "default")["status"]["phase"] == "Pending"

    on_bench(tmp_path, test)


def test_init_containers_go_first_and_a_failing_one_ends_a_pod_that_never_restarts(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        first = [{"name": "first", "image": "busybox"}, {"name": "second", "image": "busybox"}]
        await bench.client.create("pods", pod("good", initContainers=first))
        await bench.client.create("pods", pod("bad", {f"{RUN}.first": "exit 1"}, initContainers=first, restartPolicy="Never"))
        await bench.settle()
        assert condition(bench.get("pods", "good", "default"), "Initialized")["status"] == "False"
        await bench.wait(30)
        good = bench.get("pods", "good", "default")
        assert good["status"]["phase"] == "Running"
        assert [s["state"]["terminated"]["exitCode"] for s in good["status"]["initContainerStatuses"]] == [0, 0]
        assert bench.get("pods", "bad", "default")["status"]["phase"] == "Failed"

    on_bench(tmp_path, test)


def test_a_pod_waits_for_its_config_and_starts_when_it_comes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "a"}}}]
        await bench.client.create("pods", pod("p", container={"env": env}))
        await bench.wait(10)
        waiting = container(bench, "p")["state"]["waiting"]
        assert (waiting["reason"], waiting["message"]) == ("CreateContainerConfigError", 'configmap "cfg" not found')
        await bench.client.create("configmaps", {"metadata": {"name": "cfg", "namespace": "default"}, "data": {"a": "1"}})
        await bench.wait(30)
        assert bench.get("pods", "p", "default")["status"]["phase"] == "Running"

    on_bench(tmp_path, test)


def test_deleting_a_pod_is_graceful(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        await bench.client.create("pods", pod("p"))
        await bench.wait(10)
        await bench.client.delete("pods", "p", "default")
        await bench.settle()
        assert bench.get("pods", "p", "default")["metadata"]["deletionGracePeriodSeconds"] == 30
        await bench.wait(5)
        assert bench.cluster.read("pods", "p", "default") is None
        assert ("Killing", "Stopping container main") in bench.events()

    on_bench(tmp_path, test)


def test_a_process_really_runs_with_its_environment_and_volumes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        script = "echo hello $WHO from $NODE; cat /etc/app/a.txt; echo data > /tank/out; echo oops >&2; exit 4"
        env = [{"name": "WHO", "value": "you"}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
        mounted = [{"name": "cfg", "mountPath": "/etc/app"}, {"name": "work", "mountPath": "/tank"}]
        run = {"command": ["sh", "-c", script], "env": env, "volumeMounts": mounted}
        await bench.client.create("configmaps", {"metadata": {"name": "cfg", "namespace": "default"}, "data": {"a.txt": "content\n"}})
        volumes = [{"name": "cfg", "configMap": {"name": "cfg"}}, {"name": "work", "emptyDir": {}}]
        await bench.client.create("pods", pod("p", {RUN: "process"}, container=run, volumes=volumes, restartPolicy="Never"))
        found = await real(bench, "p", "Failed")
        assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
        assert await logs(bench, "p") == "hello you from hyperpod-i-0aaaaaaaaaaaaaaa1\ncontent\noops\n"
        folder = bench.cluster.data_dir / "pods" / found["metadata"]["uid"]
        assert (folder / "volumes" / "work" / "out").read_text() == "data\n"
        await bench.client.delete("pods", "p", "default")
        await bench.wait(2)
        assert not folder.exists()
        assert not bench.cluster.log_path("default", "p", "main").exists()

    on_bench(tmp_path, test)


def test_a_process_is_asked_to_stop_then_killed_with_its_children(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        script = "trap 'echo term' TERM; sleep 1000 & echo $!; while true; do sleep 0.1; done"
        await bench.client.create(
            "pods", pod("p", {RUN: "process"}, container={"command": ["sh", "-c", script]}, terminationGracePeriodSeconds=5)
        )
        await real(bench, "p", "Running")
        for _ in range(100):
            text = await logs(bench, "p")
            if text:
                break
            await asyncio.sleep(0.05)
        child = int(text.split()[0])
        os.kill(child, 0)
        await bench.client.delete("pods", "p", "default")
        await bench.wait(1)
        assert bench.cluster.read("pods", "p", "default") is not None
        await bench.wait(10)
        for _ in range(100):
            await bench.wait(1)
            if bench.cluster.read("pods", "p", "default") is None:
                break
            await asyncio.sleep(0.05)
        assert bench.cluster.read("pods", "p", "default") is None
        state = Path(f"/proc/{child}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"

    on_bench(tmp_path, test)


def test_a_command_that_does_not_exist_is_a_start_error(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.2xlarge")
        await bench.client.create("pods", pod("p", {RUN: "process"}, container={"command": ["no-such-command"]}, restartPolicy="Never"))
        await bench.wait(10)
        ended = container(bench, "p")["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert 'exec: "no-such-command": No such file or directory' in ended["message"]

    on_bench(tmp_path, test)


# ---------------------------------------------------------------------- services, disruption


def test_endpoints_follow_ready_pods(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        ports = [{"name": "http", "port": 80, "targetPort": "web"}]
        await bench.client.create(
            "services", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
        )
        offered = {"ports": [{"name": "web", "containerPort": 8080}]}
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=2, pod=pod_spec(container=offered)))
        await bench.settle()
        waiting = bench.get("endpoints", "web", "default")["subsets"][0]
        assert "addresses" not in waiting
        assert len(waiting["notReadyAddresses"]) == 2
        await bench.wait(10)
        subset = bench.get("endpoints", "web", "default")["subsets"][0]
        assert {a["ip"] for a in subset["addresses"]} == {p["status"]["podIP"] for p in bench.pods()}
        assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        slices = [
            s for s in bench.cluster.read_all("endpointslices.discovery.k8s.io", "default") if s["metadata"]["name"].startswith("web-")
        ]
        assert [e["conditions"]["ready"] for e in slices[0]["endpoints"]] == [True, True]
        await bench.client.scale("deployments.apps", "web", 0, "default")
        await bench.wait(10)
        assert not bench.get("endpoints", "web", "default").get("subsets")
        await bench.client.delete("services", "web", "default")
        await bench.settle()
        assert bench.cluster.read("endpoints", "web", "default") is None

    on_bench(tmp_path, test)


def test_a_load_balancer_is_made_by_aws_and_removed_before_its_service(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.aws.refuse_balancers = True
        spec = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
        await bench.client.create("services", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await bench.settle()
        assert ("SyncLoadBalancerFailed", "Error syncing load balancer: no subnet is tagged for load balancers") in bench.events()
        bench.aws.refuse_balancers = False
        await bench.wait(15)
        found = bench.get("services", "web", "default")
        assert found["status"]["loadBalancer"]["ingress"] == [{"hostname": "k8s-default-web.elb.example"}]
        assert found["metadata"]["finalizers"] == ["service.kubernetes.io/load-balancer-cleanup"]
        assert bench.aws.balancers == {"default/web": "internet-facing"}
        await bench.client.delete("services", "web", "default")
        await bench.settle()
        assert bench.aws.balancers == {}
        assert bench.cluster.read("services", "web", "default") is None

    on_bench(tmp_path, test)


def test_a_budget_counts(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=2))
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
        await bench.client.create("poddisruptionbudgets.policy", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await bench.wait(10)
        budget = bench.get("poddisruptionbudgets.policy", "web", "default")
        assert (budget["status"]["currentHealthy"], budget["status"]["disruptionsAllowed"]) == (2, 0)
        await bench.client.scale("deployments.apps", "web", 3, "default")
        await bench.wait(10)
        budget = bench.get("poddisruptionbudgets.policy", "web", "default")
        assert budget["status"]["disruptionsAllowed"] == 1

    on_bench(tmp_path, test)


def test_pods_leave_a_node_that_does_not_answer_after_their_toleration(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.m5.2xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=1))
        await bench.wait(10)
        await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.m5.2xlarge", status="Failure")
        await bench.machine("i-0aaaaaaaaaaaaaaa2", "ml.m5.2xlarge")
        await bench.wait(200)
        assert len(bench.pods()) == 1
        await bench.wait(120)
        homes = {p["spec"].get("nodeName"): bool(p["metadata"].get("deletionTimestamp")) for p in bench.pods()}
        assert homes == {"hyperpod-i-0aaaaaaaaaaaaaaa1": True, "hyperpod-i-0aaaaaaaaaaaaaaa2": False}

    on_bench(tmp_path, test)


def test_a_balancer_of_the_controller_waits_for_the_controller(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        spec = {"type": "LoadBalancer", "loadBalancerClass": "service.k8s.aws/nlb", "selector": {"app": "web"}, "ports": [{"port": 80}]}
        await bench.client.create("services", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await bench.wait(60)
        assert bench.aws.balancers == {}
        controller = workload("Deployment", "aws-load-balancer-controller")
        await bench.client.create("deployments.apps", controller)
        await bench.wait(60)
        assert bench.aws.balancers == {"default/web": "internal"}
        wrong = {**spec, "loadBalancerSourceRanges": ["10.0.0.0/33"]}
        await bench.client.create("services", {"metadata": {"name": "bad", "namespace": "default"}, "spec": wrong})
        await bench.wait(30)
        assert "default/bad" not in bench.aws.balancers

    on_bench(tmp_path, test)
