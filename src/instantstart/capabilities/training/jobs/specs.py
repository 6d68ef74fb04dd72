"""What may be asked of training jobs.

How a job is submitted and kept alive (``kind``) is one decision, which framework it runs (``recipe``) is another.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, InstanceType, Namespace, Target
from instantstart.ensure.mlflow.tracking import SERVICE_ACCOUNT
from instantstart.ensure.training.recipe_specs import ON, Recipe

JobKind = Literal["pytorch", "ray_job", "ray_cluster"]
IfExists = Literal["refuse", "version", "replace"]
Comparison = Literal["gt", "gteq", "lt", "lteq", "eq"]
Quantity = Annotated[str, Field(max_length=20, pattern=patterns.PRINTABLE)]
JobName = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=patterns.KUBERNETES_NAME)]
Seconds = Annotated[int, Field(ge=1, le=31_536_000)]
#: a week: results and reasons do not vanish before they are seen
KEPT_SECONDS = 604_800


class Mount(Ask):
    """A volume claim in the containers."""

    claim: Annotated[str, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the claim.")]
    path: Annotated[str, Field(max_length=512, pattern=patterns.ABSOLUTE_PATH, description="Where the containers see it, such as /data.")]
    read_only: Annotated[bool, Field(description="Mount for reading only.")] = False
    folder: Annotated[str | None, Field(max_length=300, pattern=patterns.PLAIN_FOLDER, description="Only this folder of the volume.")] = (
        None
    )


class SecretKey(Ask):
    """A value that stays in its Secret."""

    secret: Annotated[str, Field(max_length=253, pattern=patterns.KUBERNETES_NAME, description="Name of the Secret.")]
    key: Annotated[str, Field(max_length=253, pattern=patterns.LABEL_KEY, description="Its key.")] = "token"


class Recovery(Ask):
    """The recovery budget of a job on HyperPod's operator: how often and how it is started again before it fails."""

    max_retries: Annotated[int, Field(ge=0, le=1000, description="Restarts of the whole job's life (jobMaxRetryCount).")] = 5
    restarts_before_full: Annotated[
        int, Field(ge=0, le=1000, description="Restarts of processes before all pods are made anew (numRestartBeforeFullJobRestart).")
    ] = 3
    evaluation_seconds: Annotated[
        int, Field(ge=60, le=2_592_000, description="Period in which restarts are counted (evalPeriodSeconds).")
    ] = 21_600
    max_full_restarts: Annotated[int, Field(ge=0, le=1000, description="Restarts with new pods in that period (maxFullJobRestarts).")] = 1
    clean_pods: Annotated[
        Literal["All", "OnlyComplete", "None"],
        Field(description="Which pods, with their logs, go when the job ends (cleanPodPolicy)."),
    ] = "All"
    avoid_repeat_offenders: Annotated[
        int | None, Field(ge=0, le=100, description="Nodes at most that a restart avoids, because pods failed there again and again.")
    ] = None
    start_within_seconds: Annotated[
        Seconds | None, Field(description="It fails unless all its pods run within this time: also when it is stuck in rendezvous.")
    ] = None
    recover_within_seconds: Annotated[Seconds | None, Field(description="It fails when a fault lasts longer than this.")] = None


class LogRule(Ask):
    """What the operator looks for in the log: a hang (nothing for a while) or a slow job (numbers out of bounds)."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.LABEL_VALUE, description="Name of the rule.")]
    pattern: Annotated[str, Field(min_length=1, max_length=1000, description="RE2 expression; one group captures a number.")]
    start_within_seconds: Annotated[Seconds | None, Field(description="Hanging, unless it fits this soon after the start.")] = None
    repeat_within_seconds: Annotated[Seconds | None, Field(description="Hanging, unless it fits again within this time.")] = None
    threshold: Annotated[
        int | None, Field(ge=-(2**31), le=2**31 - 1, description="With what the captured number is compared; a whole number.")
    ] = None
    comparison: Annotated[
        Comparison | None, Field(description="Slow, when the captured number compares so to the threshold: gt, gteq, lt, lteq, eq.")
    ] = None
    data_points: Annotated[int | None, Field(ge=1, le=10_000, description="How many times in a row; left out: 1.")] = None
    stop_pattern: Annotated[
        str | None, Field(min_length=1, max_length=1000, description="RE2 expression of the line after which the rule sleeps.")
    ] = None


class Elastic(Ask):
    """Elastic training: the job grows and shrinks with what is free. Not on Spot, not with HyperPod's own checkpointing."""

    min_nodes: Annotated[int, Field(ge=1, le=10_000, description="Fewest nodes.")]
    max_nodes: Annotated[int, Field(ge=1, le=10_000, description="Most nodes.")]
    step: Annotated[int | None, Field(ge=1, le=10_000, description="By how many nodes it changes. Or name the numbers.")] = None
    node_counts: Annotated[
        tuple[Annotated[int, Field(ge=1, le=10_000)], ...],
        Field(max_length=100, description="The very numbers of nodes that are good. Or give a step.", strict=False),
    ] = ()
    scaling_timeout_seconds: Annotated[Seconds | None, Field(description="How long one change may take.")] = None
    graceful_shutdown_seconds: Annotated[Seconds | None, Field(description="How long pods may take to end.")] = None
    faulty_scale_down_seconds: Annotated[Seconds | None, Field(description="After this in a fault, it goes on with fewer nodes.")] = None


class Tracking(Ask):
    """Where the runs of the job are tracked."""

    uri: Annotated[str, Field(max_length=500, pattern=patterns.TRACKING, description="ARN of the tracking server or app, or an address.")]
    experiment: Annotated[
        str | None, Field(min_length=1, max_length=250, pattern=patterns.PRINTABLE, description="Left out: the job's name.")
    ] = None
    run_name: Annotated[str | None, Field(min_length=1, max_length=250, pattern=patterns.PRINTABLE, description="Name of the run.")] = None
    tags: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=250, pattern=patterns.PRINTABLE)], Annotated[str, Field(max_length=5000)]],
        Field(max_length=50, description="Tags of the run."),
    ] = Field(default_factory=dict)


class RayOptions(Ask):
    """What only Ray asks. The head gets no accelerators."""

    version: Annotated[
        str | None, Field(max_length=20, pattern=patterns.RELEASE, description="Ray's version in the image; left out: from its tag.")
    ] = None
    head_cpu: Annotated[Quantity, Field(description="CPU of the head.")] = "4"
    head_memory: Annotated[Quantity, Field(description="Memory of the head.")] = "16Gi"
    max_nodes: Annotated[int | None, Field(ge=1, le=10_000, description="Ray's autoscaler may add workers up to this.")] = None
    keep_cluster: Annotated[bool, Field(description="Keep the Ray cluster, and what it holds, when the job ends.")] = False
    start_within_seconds: Annotated[Seconds, Field(description="The job fails unless its head and workers run within this time.")] = 7200


class PodNeeds(Ask):
    """What the containers are, and what each node gives them."""

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=patterns.PRINTABLE, description="Container image.")]
    instance_type: Annotated[InstanceType, Field(description="Type of the nodes, such as ml.p5.48xlarge.")]
    instance_group: Annotated[
        str | None, Field(max_length=63, pattern=patterns.INSTANCE_GROUP, description="Only nodes of this group.")
    ] = None
    zone: Annotated[
        str | None, Field(max_length=40, pattern=patterns.ZONE, description="Only nodes in this zone; several nodes share one anyway.")
    ] = None
    nodes: Annotated[int, Field(ge=1, le=10_000, description="How many nodes: one pod on each.")] = 1
    accelerators: Annotated[int | None, Field(ge=0, le=128, description="Accelerators on each node; left out: all of them.")] = None
    mig: Annotated[str | None, Field(pattern=patterns.MIG_SLICE, description="Instead of whole GPUs: a MIG slice, such as 1g.10gb.")] = None
    processes: Annotated[int | None, Field(ge=1, le=1024, description="Processes on each node; left out: one for each accelerator.")] = None
    efa: Annotated[int | None, Field(ge=0, le=64, description="EFA cards on each node; left out: all that go with the accelerators.")] = (
        None
    )
    cpu: Annotated[Quantity | None, Field(description="CPU on each node; left out: what fits.")] = None
    memory: Annotated[Quantity | None, Field(description="Memory on each node, such as 200Gi; left out: what fits.")] = None
    shared_memory: Annotated[Quantity | None, Field(description="Size of /dev/shm, part of the memory; left out: half of it.")] = None
    tolerate: Annotated[
        tuple[Annotated[str, Field(max_length=400, pattern=patterns.TAINT)], ...],
        Field(max_length=20, description="Taints of the nodes that the job lives with, as key=value:Effect.", strict=False),
    ] = ()
    mounts: Annotated[tuple[Mount, ...], Field(max_length=20, description="Volumes: claim, path.", strict=False)] = ()
    env: Annotated[
        dict[Annotated[str, Field(max_length=200, pattern=patterns.VARIABLE)], Annotated[str, Field(max_length=8192)]],
        Field(max_length=200, description="Variables. Secrets belong into secret_env."),
    ] = Field(default_factory=dict)
    secret_env: Annotated[
        dict[Annotated[str, Field(max_length=200, pattern=patterns.VARIABLE)], SecretKey],
        Field(max_length=50, description="Variables by Secret: name, secret, key."),
    ] = Field(default_factory=dict)
    service_account: Annotated[
        str | None, Field(max_length=253, pattern=patterns.KUBERNETES_NAME, description="Service account of the pods, for roles of AWS.")
    ] = None


class SubmitTrainingJob(PodNeeds):
    """training_job.submit: what is run, where, and how it is kept alive."""

    name: Annotated[JobName, Field(description="Name of the job.", examples=["llm-a"])]
    namespace: Namespace = "default"
    kind: Annotated[
        JobKind | None,
        Field(description="pytorch: HyperPod's operator; ray_job, ray_cluster: KubeRay. Left out: what the framework runs on."),
    ] = None
    recipe: Annotated[Recipe | None, Field(description="What is run, by framework. A ray_cluster has none.")] = None
    if_exists: Annotated[
        IfExists,
        Field(description="When a job of that name is there: refuse; version: take name-2, name-3 ...; replace: end it and take its name."),
    ] = "refuse"
    recovery: Annotated[Recovery, Field(description="The recovery budget (pytorch).")] = Recovery()
    log_rules: Annotated[
        tuple[LogRule, ...], Field(max_length=20, description="What is looked for in the log (pytorch). Try them first.", strict=False)
    ] = ()
    elastic: Annotated[Elastic | None, Field(description="Grow and shrink (pytorch).")] = None
    checkpointing: Annotated[
        Literal["own", "tiered", "checkpointless"],
        Field(description="How the job keeps its state: by itself, by managed tiered checkpointing, or checkpointless."),
    ] = "own"
    run_within_seconds: Annotated[Seconds | None, Field(description="The job is ended after this time of running.")] = None
    keep_seconds: Annotated[
        int, Field(ge=-1, le=31_536_000, description="How long the finished job is kept; -1: for ever. 0 would lose its result.")
    ] = KEPT_SECONDS
    queue: Annotated[
        str | None, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Queue of task governance in the namespace.")
    ] = None
    priority: Annotated[
        str | None,
        Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Priority class: of the queues where a queue is named."),
    ] = None
    tracking: Annotated[Tracking | None, Field(description="MLflow: uri, experiment, run_name, tags.")] = None
    ray: Annotated[RayOptions, Field(description="Options of Ray.")] = RayOptions()

    @property
    def runs_under(self) -> str | None:
        """The pods' service account: as said; else, where runs are tracked on SageMaker, the one that MLflow's role is bound to."""
        tracked = self.tracking is not None and self.tracking.uri.startswith("arn:")
        return self.service_account or (SERVICE_ACCOUNT if tracked else None)

    @property
    def runs_as(self) -> JobKind:
        """The kind of object: said, or what the framework usually runs on."""
        if self.kind is not None:
            return self.kind
        usual: Any = ON[self.recipe.framework][0] if self.recipe else "pytorch"  # a forgotten recipe is no wish for a Ray cluster
        return usual  # type: ignore[no-any-return]


class SubmitTarget(Target, SubmitTrainingJob):
    """training_job.submit with its place."""


class JobTarget(Target):
    """training_job.delete: which job; ``uid`` is the very object that was seen, ``keep_cluster`` of Ray is overruled."""

    kind: JobKind
    namespace: str
    name: str
    uid: str


class ResubmitTrainingJob(Ask):
    """training_job_resubmit: the same job once more."""

    name: Annotated[JobName | None, Field(description="Another name; left out: name-2, name-3 ... (if_exists decides).")] = None
    if_exists: Annotated[IfExists, Field(description="When a job of the name is there: refuse, version or replace.")] = "version"


class TryLogRules(Ask):
    """training_log_rules_try: rules, and log text to try them on."""

    rules: Annotated[tuple[LogRule, ...], Field(min_length=1, max_length=20, description="The rules.", strict=False)]
    text: Annotated[str, Field(min_length=1, max_length=262_144, description="Lines of a log of such a job.")]
    seconds_per_line: Annotated[
        float | None, Field(gt=0, le=86_400, description="Time between two lines; left out: times are not judged.")
    ] = None


def subject(target: SubmitTarget) -> str:
    """What an operation works on: one name of one kind; with versions each request is its own, for the first may wait for days."""
    asked = hashlib.sha256(target.model_dump_json().encode()).hexdigest()[:12] if target.if_exists == "version" else ""
    name = f"{target.name}@{asked}" if asked else target.name
    return f"training-job/{target.region}/{target.tag}/{target.namespace}/{target.runs_as}/{name}"


def deletion_subject(target: JobTarget) -> str:
    """The very object: what follows a job that waits for days must not stand in the way of its end."""
    return f"training-job-end/{target.region}/{target.tag}/{target.namespace}/{target.kind}/{target.name}/{target.uid}"
