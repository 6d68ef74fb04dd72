"""The objects of a job, as data: HyperPodPyTorchJob, RayJob, RayCluster, and the ConfigMap with the entry scripts.

Facts: aws-facts A16 (operator), A18 (KubeRay). Arguments are lists from end to end; KubeRay's entrypoint, a line for a shell, holds no
text of the person. What was asked is kept on the object, so that it can be submitted again when our database is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import names, quantities
from instantstart.capabilities.training.jobs import rules
from instantstart.capabilities.training.jobs.rules import Settled
from instantstart.capabilities.training.jobs.specs import Elastic, LogRule, Recovery, SubmitTrainingJob
from instantstart.ensure.capacity import nodes
from instantstart.ensure.running import job_pods, pod_shapes
from instantstart.ensure.running.pod_shapes import Placement, Shape
from instantstart.ensure.training import recipe_scripts

COMPONENT = "training-job"
#: on the object: the ask as JSON
ASKED = "instantstart.dev/asked"
JOB_LABEL, ROLE_LABEL = "instantstart.dev/training-job", "instantstart.dev/role"
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
CONTAINER, REPLICAS, WORKERS = "pytorch", "pods", "workers"
_AGENT_PORT, _DASHBOARD, _GCS, _CLIENT = 8080, 8265, 6379, 10001


@dataclass(frozen=True)
class Wanted:
    """One job: what was asked, what was settled, and the mark of the operation that makes it ("" in a preview)."""

    ask: SubmitTrainingJob
    settled: Settled
    mark: str = ""

    @property
    def kind(self) -> str:
        """As the cluster calls it: group, version and kind."""
        return job_pods.KINDS[self.ask.runs_as]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the entry script."""
        return rules.config(self.ask, self.settled.name, self.settled.processes)

    @property
    def is_scripted(self) -> bool:
        """Whether our entry script starts the work."""
        return self.ask.recipe is not None and not getattr(self.ask.recipe, "direct", False)

    def resources(self) -> tuple[Shape, ...]:
        """The scripts, where they are needed, then the job."""
        scripts = (recipe_scripts.config_map(self.ask.namespace),) if self.is_scripted else ()
        made = {"pytorch": self._pytorch_job, "ray_job": self._ray_job, "ray_cluster": self._ray_cluster}[self.ask.runs_as]()
        return (*scripts, made)

    def argv(self) -> list[str]:
        """The exact arguments that the work is started with; what only the operator knows stands as $MASTER_ADDR. Raises Invalid."""
        recipe = self.ask.recipe
        if recipe is None:
            return []
        if not self.is_scripted:
            return list(recipe.command)  # type: ignore[union-attr]
        given = recipe_scripts.as_given(self.config)  # settings in the order in which the container reads them
        return recipe_scripts.argv_of(given, {**self.environment(), **self.rendezvous()})

    def rendezvous(self) -> dict[str, str]:
        """What the operator gives each pod so that they find one another, as far as it is known before."""
        if self.ask.runs_as != "pytorch":
            return {}
        known = {"NNODES": str(self.ask.nodes), "NPROC_PER_NODE": str(self.settled.processes)}
        return {**known, "NODE_RANK": "$NODE_RANK", "MASTER_ADDR": "$MASTER_ADDR", "MASTER_PORT": "$MASTER_PORT"}

    def environment(self) -> dict[str, str]:
        """The variables with plain values."""
        ask, found = self.ask, {"PYTHONUNBUFFERED": "1"}
        if self.settled.sizing.efa:
            found |= {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1"}
        if ask.nodes > 1 and self.settled.sizing.accelerators:
            found |= {"NCCL_SOCKET_IFNAME": "^docker,lo,veth", "NCCL_DEBUG": "WARN"}
        if ask.tracking:
            found |= {"MLFLOW_TRACKING_URI": ask.tracking.uri}
            if not self.is_scripted:
                found |= self._tracked()
        found |= dict(ask.env)
        return found | (recipe_scripts.environment(self.config) if self.is_scripted else {})

    def _tracked(self) -> dict[str, str]:
        """What our script would set for MLflow, where it does not run."""
        tracking = self.ask.tracking
        if tracking is None:
            return {}
        told = {"MLFLOW_EXPERIMENT_NAME": tracking.experiment or self.settled.name}
        told |= {"MLFLOW_RUN_NAME": tracking.run_name} if tracking.run_name else {}
        return told | ({"MLFLOW_TAGS": json.dumps(dict(tracking.tags))} if tracking.tags else {})

    def _head(self) -> Shape:
        """apiVersion, kind and metadata."""
        ask = self.ask
        api_version, _, kind = self.kind.rpartition("/")
        labels = pod_shapes.labels(self.settled.name, COMPONENT, **self._marks())
        if ask.queue:
            labels |= {QUEUE_LABEL: ask.queue, **({PRIORITY_LABEL: ask.priority} if ask.priority else {})}
        asked = json.dumps(
            ask.model_dump(mode="json", exclude={"tag", "region"}, exclude_defaults=True),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        )
        metadata = {"name": self.settled.name, "namespace": ask.namespace, "labels": labels, "annotations": {ASKED: asked}}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    def _marks(self) -> dict[str, str]:
        return {names.OPERATION_TAG: self.mark} if self.mark else {}

    def _pytorch_job(self) -> Shape:
        ask = self.ask
        replica: Shape = {"name": REPLICAS, "replicas": ask.nodes, "template": self._template("worker")}
        spec: Shape = {"nprocPerNode": str(self.settled.processes), "runPolicy": run_policy(ask), "replicaSpecs": [replica]}
        if ask.elastic:
            replica["maxReplicas"] = ask.elastic.max_nodes
            spec["elasticPolicy"] = elastic_policy(ask.elastic)
        return {**self._head(), "spec": spec}

    def _ray_job(self) -> Shape:
        ask = self.ask
        spec: Shape = {
            "entrypoint": recipe_scripts.ENTRYPOINT,
            "jobId": f"{self.settled.name}-{self.mark}".rstrip("-"),
            "submissionMode": "K8sJobMode",
            "shutdownAfterJobFinishes": not ask.ray.keep_cluster,
            "backoffLimit": 0,
            "preRunningDeadlineSeconds": ask.ray.start_within_seconds,
            "submitterPodTemplate": self._submitter(),
            "rayClusterSpec": self._cluster_spec(),
        }
        if ask.run_within_seconds:
            spec["activeDeadlineSeconds"] = ask.run_within_seconds
        return {**self._head(), "spec": spec}

    def _ray_cluster(self) -> Shape:
        return {**self._head(), "spec": self._cluster_spec()}

    def _cluster_spec(self) -> Shape:
        ask, version = self.ask, rules.ray_version(self.ask)
        most = ask.ray.max_nodes or ask.nodes
        group = {
            "groupName": WORKERS,
            "replicas": ask.nodes,
            "minReplicas": ask.nodes,
            "maxReplicas": most,
            "rayStartParams": {},
            "template": self._template("worker"),
        }
        start = {"dashboard-host": "0.0.0.0", "num-gpus": "0"}
        head = {"rayStartParams": start, "template": self._template("head")}
        spec: Shape = {"headGroupSpec": head, "workerGroupSpecs": [group]}
        if version:
            spec["rayVersion"] = version
        if most > ask.nodes:
            spec["enableInTreeAutoscaling"] = True
        return spec

    def _submitter(self) -> Shape:
        """The pod that hands the job to Ray: it does no work, and needs no accelerators."""
        wanted = pod_shapes.equal_resources({"cpu": rules.SUBMITTER_CPU, "memory": rules.SUBMITTER_MEMORY})
        container = {"name": "submitter", "image": self.ask.image, "resources": wanted, "securityContext": pod_shapes.container_security()}
        metadata = {"labels": self._labels("submitter"), "annotations": pod_shapes.notes()}
        placed = {"tolerations": pod_shapes.tolerations(self.ask.tolerate)}
        return {"metadata": metadata, "spec": {**pod_shapes.pod_basics(), **placed, "restartPolicy": "Never", "containers": [container]}}

    def _labels(self, role: str) -> dict[str, str]:
        return pod_shapes.labels(self.settled.name, COMPONENT, **{JOB_LABEL: self.settled.name, ROLE_LABEL: role}, **self._marks())

    def _template(self, role: str) -> Shape:
        """The pod of a worker, or of Ray's head."""
        ask, labels = self.ask, self._labels(role)
        volumes, mounts = self._storage(role)
        spec: Shape = {**pod_shapes.pod_basics(ask.runs_under), **self._placed(role, labels)}
        if ask.priority and not ask.queue:
            spec["priorityClassName"] = ask.priority
        container = {
            "name": {"head": "ray-head"}.get(role, CONTAINER if ask.runs_as == "pytorch" else "ray-worker"),
            "image": ask.image,
            "env": pod_shapes.environment(
                {name: pod_shapes.literal(text) for name, text in self.environment().items()},
                {name: (at.secret, at.key) for name, at in ask.secret_env.items()},
            ),
            "ports": self._ports(role),
            "resources": pod_shapes.equal_resources(self._wants(role)),
            "securityContext": pod_shapes.container_security(),
            "volumeMounts": mounts,
        }
        if ask.runs_as == "pytorch":
            container["command"] = list(recipe_scripts.COMMAND) if self.is_scripted else [pod_shapes.literal(text) for text in self.argv()]
        spec |= {"containers": [container], "volumes": volumes}
        return {"metadata": {"labels": labels, "annotations": pod_shapes.notes()}, "spec": spec}

    def _wants(self, role: str) -> Mapping[str, str]:
        return {"cpu": self.ask.ray.head_cpu, "memory": self.ask.ray.head_memory} if role == "head" else self.settled.sizing.resources

    def _ports(self, role: str) -> list[Shape]:
        if role == "head":
            told = {"gcs-server": _GCS, "dashboard": _DASHBOARD, "client": _CLIENT}
        else:
            told = {"agent": _AGENT_PORT} if self.ask.runs_as == "pytorch" else {}
        return [{"name": name, "containerPort": port} for name, port in told.items()]

    def _placed(self, role: str, labels: Mapping[str, str]) -> Shape:
        """Workers where they were settled, each on a node of its own, all in one zone; the head wherever there is room."""
        ask, settled = self.ask, self.settled
        if role == "head":
            return {"tolerations": pod_shapes.tolerations(ask.tolerate)}
        placed = pod_shapes.placed(Placement(ask.instance_type, settled.group, settled.zone, taints=ask.tolerate))
        mine = {key: labels[key] for key in (JOB_LABEL, ROLE_LABEL)}
        most = ask.elastic.max_nodes if ask.elastic else max(ask.nodes, ask.ray.max_nodes or 0)
        if most > 1:
            placed["affinity"] |= pod_shapes.apart(mine)
            placed["affinity"] |= pod_shapes.together(mine, nodes.ZONE) if settled.together else {}
        return placed

    def _storage(self, role: str) -> tuple[list[Shape], list[Shape]]:
        ask = self.ask
        memory = quantities.whole(ask.ray.head_memory) if role == "head" else self.settled.sizing.memory_bytes
        half = quantities.whole(ask.shared_memory) if ask.shared_memory and role != "head" else memory // 2
        volumes, mounts = pod_shapes.claims([pod_shapes.Mount(m.claim, m.path, m.read_only, m.folder) for m in ask.mounts])
        more = [pod_shapes.shared_memory(half)]
        more += [pod_shapes.code(recipe_scripts.config_map_name(), recipe_scripts.FOLDER)] if self.is_scripted else []
        return [*volumes, *(volume for volume, _ in more)], [*mounts, *(mount for _, mount in more)]


def run_policy(ask: SubmitTrainingJob) -> Shape:
    """How the job is kept alive, and when it is given up."""
    budget: Recovery = ask.recovery
    restart: Shape = {
        "numRestartBeforeFullJobRestart": budget.restarts_before_full,
        "evalPeriodSeconds": budget.evaluation_seconds,
        "maxFullJobRestarts": budget.max_full_restarts,
    }
    if budget.avoid_repeat_offenders is not None:
        restart["maxNumRepeatOffendersToAvoid"] = budget.avoid_repeat_offenders
    policy: Shape = {
        "cleanPodPolicy": budget.clean_pods,
        "jobMaxRetryCount": budget.max_retries,
        "restartPolicy": restart,
        "ttlSecondsAfterFinished": ask.keep_seconds,
    }
    deadlines = {
        "startupDeadlineSeconds": budget.start_within_seconds,
        "faultDeadlineSeconds": budget.recover_within_seconds,
        "activeDeadlineSeconds": ask.run_within_seconds,
    }
    policy |= {name: value for name, value in deadlines.items() if value is not None}
    if ask.log_rules:
        policy["logMonitoringConfiguration"] = [log_rule(rule) for rule in ask.log_rules]
    return policy


def log_rule(rule: LogRule) -> Shape:
    """A rule as the operator takes it."""
    told = {
        "name": rule.name,
        "logPattern": rule.pattern,
        "expectedStartCutOffInSeconds": rule.start_within_seconds,
        "expectedRecurringFrequencyInSeconds": rule.repeat_within_seconds,
        "metricThreshold": rule.threshold,
        "metricEvaluationDataPoints": rule.data_points,
        "operator": rule.comparison,
        "stopPattern": rule.stop_pattern,
    }
    return {name: value for name, value in told.items() if value is not None}


def elastic_policy(elastic: Elastic) -> Shape:
    """Elastic training as the operator takes it."""
    told = {
        "minReplicas": elastic.min_nodes,
        "maxReplicas": elastic.max_nodes,
        "replicaIncrementStep": elastic.step,
        "replicaDiscreteValues": list(elastic.node_counts) or None,
        "scalingTimeoutInSeconds": elastic.scaling_timeout_seconds,
        "gracefulShutdownTimeoutInSeconds": elastic.graceful_shutdown_seconds,
        "faultyScaleDownTimeoutInSeconds": elastic.faulty_scale_down_seconds,
    }
    return {name: value for name, value in told.items() if value is not None}


def asked_of(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was asked when the job was made; None for a job that others made, or whose note was spoilt."""
    try:
        found = json.loads((job["metadata"].get("annotations") or {}).get(ASKED, ""))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
