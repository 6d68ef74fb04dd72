"""One sentence, a code, evidence and a next step for everything that keeps a pod from running (cases 10, 43, 52, 54, 57)."""

from __future__ import annotations

from typing import Any

import pytest

from instantstart.ensure.capacity.nodes import GROUP, HEALTH, INSTANCE_TYPE
from instantstart.ensure.running import pending
from instantstart.ensure.running.pending import Known
from instantstart.ensure.running.pending_places import Place
from instantstart.ensure.running.pending_words import Why
from instantstart.kube import shapes

P5 = "ml.p5.48xlarge"
GPU = "nvidia.com/gpu"


def a_pod(
    phase: str = "Pending", node: str | None = "n1", gpus: int = 8, spec: dict[str, Any] | None = None, **status: Any
) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}}
    made = {"containers": [container], "nodeSelector": {INSTANCE_TYPE: P5}, **({"nodeName": node} if node else {}), **(spec or {})}
    return {"metadata": {"name": "a", "namespace": "x", "uid": "u"}, "spec": made, "status": {"phase": phase, **status}}


def unplaced(said: str, **more: Any) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return a_pod(node=None, conditions=[condition], **more)


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return a_pod(containerStatuses=[{"name": "main", "image": "app:1", "state": state, **more}])


def ended(code: int, reason: str = "Error", phase: str = "Failed", message: str = "") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return a_pod(phase, containerStatuses=[{"name": "main", "image": "app:1", "state": state}])


def an_event(reason: str, message: str, kind: str = "Warning", about: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": "e"}, "type": kind, "reason": reason, "message": message, "involvedObject": {"name": about}}


def a_node(
    kind: str = P5, gpus: int = 8, taint: dict[str, str] | None = None, ready: str = "True", name: str = "n1", **labels: str
) -> shapes.Node:
    found = {
        "metadata": {"name": name, "labels": {INSTANCE_TYPE: kind, GROUP: "train", **labels}},
        "spec": {"taints": [taint] if taint else []},
        "status": {"allocatable": {GPU: str(gpus)}, "conditions": [{"type": "Ready", "status": ready}]},
    }
    return shapes.node(found)


def told(pod: dict[str, Any], **known: Any) -> Why:
    why = pending.explain([pod], Known(**known))
    assert why is not None
    assert why.next_step
    return why


TAINT = "0/3 nodes are available: 3 node(s) had untolerated taint {team: red}. preemption: 0/3 nodes are available: 3 x."
HEALTH_TAINT = "0/2 nodes are available: 2 node(s) had untolerated taint {sagemaker.amazonaws.com/node-health-status: Unschedulable}."
SHORT_OF = "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 x."
SELECTOR = "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("said", "code", "part"),
    [
        (TAINT, "nodes.tainted", "the taint team=red"),
        (HEALTH_TAINT, "nodes.not_usable", "unhealthy or under a deep health check"),
        (SHORT_OF, "resource.insufficient", "enough nvidia.com/gpu"),
        (SELECTOR, "nodes.none_match", "No node has the labels"),
        ("0/1 nodes are available: 1 Too many pods.", "nodes.no_slot", "as many pods as it takes"),
        ('0/1 nodes are available: persistentvolumeclaim "data" not found.', "claim.missing", "claim data is not in the namespace"),
        ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "claim.unbound", "not bound"),
        ("0/2 nodes are available: 2 node(s) had volume node affinity conflict.", "nodes.volume_elsewhere", "another zone"),
        ("0/2 nodes are available: 2 node(s) were unschedulable.", "nodes.not_usable", "cordoned"),
        ("no nodes available to schedule pods", "nodes.none", "has no node"),
        ("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.", "nodes.apart", "runs a pod of the same job"),
        ("a sentence of another scheduler", "nodes.none_fit", "a sentence of another scheduler"),
    ],
)
def test_the_clause_of_the_scheduler_that_matters(said: str, code: str, part: str) -> None:
    why = told(unplaced(said))
    assert (why.code, part in why.text) == (code, True), why
    assert why.evidence["untrusted_message"] == said


@pytest.mark.parametrize(
    ("places", "code", "part"),
    [
        ([Place(a_node("ml.g5.xlarge", 1))], "nodes.none_match", "There is no node of ml.p5.48xlarge; the cluster has ml.g5.xlarge."),
        ([Place(a_node(gpus=7))], "nodes.too_small", "asks for 8 nvidia.com/gpu, and no node of ml.p5.48xlarge has more than 7"),
        ([Place(a_node(), {GPU: 8})], "resource.insufficient", "no node of ml.p5.48xlarge has that many free (none is free)."),
        (
            [Place(a_node(), {GPU: 1}), Place(a_node(name="n2"), {GPU: 4})],
            "resource.insufficient",
            "has that many free (7 free on one node at most, 11 on all together).",
        ),
        ([Place(a_node(taint={"key": "team", "value": "red", "effect": "NoSchedule"}))], "nodes.tainted", "the taint team=red of the only"),
        (
            [Place(a_node(**{HEALTH: "UnschedulablePendingReplacement"})), Place(a_node("ml.g5.xlarge"))],  # type: ignore[arg-type]
            "nodes.not_usable",
            "HyperPod is replacing the instance",
        ),
        ([Place(a_node(ready="False"))], "nodes.not_usable", "The node is not ready"),
    ],
)
def test_the_nodes_themselves_say_more_than_the_scheduler(places: list[Place], code: str, part: str) -> None:
    """The scheduler's first clause is about a node that the pod never wanted."""
    why = told(unplaced(TAINT), places=places)
    assert (why.code, part in why.text) == (code, True), why


def test_who_holds_what_is_missing_is_named_with_counts_on_each_node() -> None:
    one = Place(a_node(name="n1"), {GPU: 8}, {"job train/first": {GPU: 6}, "pod default/shell": {GPU: 2}})
    two = Place(a_node(name="n2"), {GPU: 4}, {"job train/first": {GPU: 4}, "Deployment default/none": {"cpu": 1}})
    why = told(unplaced(SHORT_OF), places=[one, two])
    assert why.text.endswith("(4 free on one node). Held by job train/first: 10 (n1: 6, n2: 4) and 1 more.")
    assert why.evidence["holders"] == ["job train/first: 10 (n1: 6, n2: 4)", "pod default/shell: 2 (n1: 2)"]


def test_nodes_on_their_way_are_the_reason_while_they_come() -> None:
    why = told(unplaced(SHORT_OF), places=[Place(a_node(), {GPU: 8})], coming="2 node(s) of ml.p5.48xlarge in group train are being made.")
    assert (why.code, why.kind) == ("capacity.coming", "waiting")
    assert "2 node(s) of ml.p5.48xlarge" in why.text


def test_a_required_affinity_counts_as_a_selector_does() -> None:
    rule = {"key": GROUP, "operator": "In", "values": ["other"]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    assert told(unplaced(TAINT, spec={"affinity": {"nodeAffinity": terms}}), places=[Place(a_node())]).code == "nodes.none_match"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("rpc error: code = NotFound desc = failed to resolve reference: app:1: not found", "image.not_found"),
        ("pull access denied, repository does not exist or may require authorization", "image.access_denied"),
        ("failed to authorize: 401 Unauthorized", "image.access_denied"),
        ("429 Too Many Requests - toomanyrequests: You have reached your pull rate limit", "image.rate_limited"),
        ("write /var/lib/containerd/x: no space left on device", "image.no_space"),
        ("no match for platform in manifest: not found", "image.wrong_architecture"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "image.registry_unreachable"),
        ("x509: certificate signed by unknown authority", "image.certificate"),
        ("something new", "image.not_pulled"),
    ],
)
def test_an_image_that_cannot_be_pulled(message: str, code: str) -> None:
    assert told(waiting("ErrImagePull", message)).code == code


def test_a_back_off_tells_no_cause_and_the_event_does() -> None:
    events = [an_event("Failed", 'Failed to pull image "app:1": app:1: not found')]
    assert told(waiting("ImagePullBackOff", 'Back-off pulling image "app:1"'), events=events).code == "image.not_found"


@pytest.mark.parametrize(
    ("pod", "code", "part"),
    [
        (waiting("InvalidImageName"), "image.invalid_name", "no image reference"),
        (waiting("CreateContainerConfigError", 'secret "hf" not found'), "secret.missing", "needs the Secret hf"),
        (waiting("CreateContainerConfigError", 'configmap "c" not found'), "configmap.missing", "needs the ConfigMap c"),
        (waiting("CreateContainerConfigError", "couldn't find key token in Secret x/hf"), "secret.key_missing", "key token"),
        (
            waiting("RunContainerError", 'exec: "hyperpodrun": executable file not found in $PATH'),
            "container.command_missing",
            "has no hyperpodrun",
        ),
        (
            ended(128, "StartError", message='exec: "torchrun": executable file not found in $PATH: unknown'),
            "container.command_missing",
            "has no torchrun",
        ),
        (ended(137, "OOMKilled"), "container.out_of_memory", "more memory than its limit"),
        (ended(3), "container.failed", "ended with exit code 3"),
        (
            waiting("CrashLoopBackOff", restartCount=4, lastState={"terminated": {"exitCode": 1, "reason": "Error"}}),
            "container.failed",
            "keeps ending (4 restarts); last time it ended with exit code 1",
        ),
        (a_pod("Failed", reason="Evicted", message="The node was low on resource: memory."), "pod.evicted", "ran short"),
        (a_pod("Failed", reason="UnexpectedAdmissionError", message="Allocate failed"), "pod.not_admitted", "would not take it"),
        (a_pod("Failed", reason="NodeLost"), "pod.node_gone", "does not answer"),
        (
            a_pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]),
            "pod.disrupted",
            "It was disrupted: it was evicted from n1",
        ),
        (
            a_pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
            "pod.preempted",
            "make room",
        ),
        (a_pod("Running", conditions=[{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]), "pod.node_gone", "not known"),
        (a_pod(node=None, spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}), "pod.gated", "kueue.x-k8s.io/admission"),
        (a_pod(node=None), "pod.unseen", "has not looked"),
        (a_pod(), "pod.starting", "being started"),
    ],
)
def test_what_the_pod_itself_says(pod: dict[str, Any], code: str, part: str) -> None:
    why = told(pod)
    assert (why.code, part in why.text) == (code, True), why


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (an_event("FailedMount", 'MountVolume.SetUp failed for volume "code" : configmap "c" not found'), "configmap.missing"),
        (an_event("FailedMount", "rpc error: code = Internal desc = Could not mount bucket"), "volume.not_mounted"),
        (
            an_event("FailedCreatePodSandBox", 'plugin type="aws-cni" failed: failed to assign an IP address to container'),
            "network.no_address",
        ),
        (an_event("Pulling", 'Pulling image "app:1"', "Normal"), "image.pulling"),
    ],
)
def test_what_stands_between_a_placed_pod_and_its_start(event: dict[str, Any], code: str) -> None:
    assert told(waiting("ContainerCreating"), events=[event]).code == code


def test_a_container_that_its_probe_ends_is_not_told_as_one_that_ends_by_itself() -> None:
    pod = waiting("CrashLoopBackOff", restartCount=6, lastState={"terminated": {"exitCode": 0, "reason": "Completed"}})
    killing = an_event("Killing", "Container main failed startup probe, will be restarted", kind="Normal")
    unhealthy = an_event("Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 404")
    why = told(pod, events=[killing, unhealthy])
    assert (why.code, why.kind) == ("container.probe_failing", "failing")
    assert why.text == (
        "The container main is ended again and again, because its startup probe fails (6 restarts): "
        "Startup probe failed: HTTP probe failed with statuscode: 404"
    )
    assert told(pod, events=[unhealthy]).code == "container.failed"
    assert told(pod, events=[an_event("Killing", "Container other failed liveness probe, will be restarted"), unhealthy]).code == (
        "container.failed"
    )


def test_a_probe_that_fails_is_told_with_its_words() -> None:
    running = a_pod("Running", containerStatuses=[{"name": "main", "image": "app:1", "ready": False, "state": {"running": {}}}])
    why = told(running, events=[an_event("Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503")])
    assert why.code == "container.probe_failing"
    assert "503" in why.text


def test_last_words_are_in_the_sentence_and_are_evidence() -> None:
    why = told(ended(1), last_words={"a": "Traceback\nRuntimeError: NCCL error\n"})
    assert why.text == "The container main ended with exit code 1: RuntimeError: NCCL error."
    assert why.evidence["untrusted_last_words"].startswith("Traceback")


@pytest.mark.parametrize(
    ("message", "code", "part"),
    [
        (
            'Error creating: pods "a-0" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
            "used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "quota.exceeded",
            "the ResourceQuota team of the namespace is used up (asked requests.nvidia.com/gpu=8",
        ),
        ('pods "a" is forbidden: failed quota: team: must specify limits.cpu', "quota.must_specify", "demands that pods say limits.cpu"),
        ('admission webhook "policy.corp" denied the request: no root', "admission.denied", "policy.corp refuses them: no root"),
        ('failed calling webhook "mpod.kb.io": Post: connection refused', "admission.webhook_unreachable", "mpod.kb.io"),
        ('pods "a" is forbidden: error looking up service account x/ml: serviceaccount "ml" not found', "service_account.missing", "ml"),
        ('pods "a" is forbidden: no PriorityClass with name high was found', "priority_class.missing", "no PriorityClass high"),
        ("something new", "pod.not_created", "something new"),
    ],
)
def test_a_workload_without_any_pod(message: str, code: str, part: str) -> None:
    owner = {"kind": "ReplicaSet", "metadata": {"name": "a", "namespace": "x"}}
    why = pending.explain_absent(owner, Known(events=[an_event("FailedCreate", message)]))
    assert why is not None
    assert (why.code, part in why.text, bool(why.next_step)) == (code, True, True), why


@pytest.mark.parametrize(
    ("conditions", "code", "part"),
    [
        ([{"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota for nvidia.com/gpu, 8 more needed"}],
         "queue.waiting", "It waits in the queue team-a: insufficient unused quota"),
        ([{"type": "QuotaReserved", "status": "False", "message": "LocalQueue team-a doesn't exist"}], "queue.missing", "is not there"),
        ([{"type": "QuotaReserved", "status": "False", "message": "ClusterQueue c is inactive"}], "queue.inactive", "admits nothing"),
        ([{"type": "Evicted", "status": "True", "reason": "Preempted", "message": "by another"}], "queue.preempted", "took its quota"),
        ([], "queue.waiting", "has not looked at it yet"),
    ],
)  # fmt: skip
def test_what_kueue_says(conditions: list[dict[str, str]], code: str, part: str) -> None:
    workload = {"metadata": {"name": "w"}, "spec": {"queueName": "team-a"}, "status": {"conditions": conditions}}
    why = pending.explain_absent({"kind": "Job", "metadata": {"name": "a"}}, Known(workload=workload))
    assert why is not None
    assert (why.code, part in why.text) == (code, True), why
    workload["status"] = {"conditions": [{"type": "Admitted", "status": "True"}]}
    assert pending.explain_absent({"kind": "Job", "metadata": {"name": "a"}}, Known(workload=workload)) is None


def test_of_many_pods_the_worst_reason_is_told_with_its_count() -> None:
    pods = [unplaced(SHORT_OF), ended(3), ended(3), a_pod("Running", conditions=[{"type": "Ready", "status": "True"}])]
    why = pending.explain(pods)
    assert why is not None
    assert why.text == "2 of 4 pods: The container main ended with exit code 3."
    assert pending.explain([a_pod("Running", conditions=[{"type": "Ready", "status": "True"}])]) is None
    assert pending.explain([]) is None


def test_a_claim_that_is_not_there_is_told_before_the_scheduler_has_looked() -> None:
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    pod = a_pod(node=None, spec={"volumes": [volume]})
    assert told(pod, claims={}).code == "claim.missing"
    lost = {"metadata": {"name": "data"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Lost"}}
    assert told(pod, claims={"data": lost}).code == "claim.unbound"


def test_hostile_text_stays_one_short_line() -> None:
    why = told(waiting("ErrImagePull", "x\n" * 5000))
    assert "\n" not in why.text
    assert len(why.text) < 600
