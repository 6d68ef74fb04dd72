"""The door of diagnosis: one address for every subject, and one under each subject's own. All only read."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from instantstart.base import patterns
from instantstart.capabilities.diagnosis import views
from instantstart.capabilities.diagnosis.views import Diagnosis, DiagnosisAsk
from instantstart.capabilities.doors import ClusterPath, RoomDep, Viewer

router = APIRouter(tags=["diagnosis"])

Detail = Annotated[bool, Query(description="All causes and evidence, longer excerpts.")]
NamespacePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its namespace.")]
NamePath = Annotated[str, Path(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Its name.")]
NamespaceQuery = Annotated[
    str, Query(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of job, endpoint, deployment.")
]
KindQuery = Annotated[views.JobKind, Query(description="Kind of a job.")]
JobQuery = Annotated[
    str | None, Query(max_length=63, pattern=patterns.KUBERNETES_NAME, description="The job; none: the cluster's side alone.")
]
_ONE = "/{namespace}/{name}/diagnosis"


@router.get("/clusters/{cluster}/diagnosis", operation_id="diagnosis_get", summary="Diagnose a cluster or something in it")
def get_diagnosis(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath,
    of: Annotated[views.Subject, Query(description="What: the cluster's creation, a node, a job, ..., nccl: nodes talking.")] = "cluster",
    name: Annotated[str | None, Query(max_length=140, description="Its name; of nccl the job's, or none.")] = None,
    namespace: NamespaceQuery = "default", job_kind: KindQuery = "pytorch", detail: Detail = False,
) -> Diagnosis:  # fmt: skip
    """Gather the evidence in one call and rank the causes, with what to do: investigate, then restart, then replace."""
    return views.diagnose(room, cluster, DiagnosisAsk(of, name, namespace, job_kind, detail))


@router.get("/clusters/{cluster}/diagnosis/nccl", operation_id="nccl_diagnose", summary="Diagnose communication between nodes")
def diagnose_nccl(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath,
    job: JobQuery = None,
    namespace: NamespaceQuery = "default", job_kind: KindQuery = "pytorch", detail: Detail = False,
) -> Diagnosis:  # fmt: skip
    """Why a multi-node job's communication hangs, fails or is slow: security group, EFA, settings, places, memory, cards, logs."""
    return views.diagnose(room, cluster, DiagnosisAsk("nccl", job, namespace, job_kind, detail))


@router.get("/clusters/{cluster}/nodes/{node}/diagnosis", operation_id="node_diagnose", summary="Diagnose a node")
def diagnose_node(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath,
    node: Annotated[str, Path(max_length=140, description="Instance id (i-...), Kubernetes name (hyperpod-i-...) or logical id.")],
    detail: Detail = False,
) -> Diagnosis:  # fmt: skip
    """What is wrong with a node: hardware, HyperPod, kubelet, devices, its pods, its group."""
    return views.diagnose(room, cluster, DiagnosisAsk("node", node, detail=detail))


@router.get(
    "/clusters/{cluster}/training-jobs/{kind}" + _ONE, operation_id="training_job_diagnose", summary="Diagnose a training job"
)  # fmt: skip
def diagnose_job(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath,
    kind: Annotated[views.JobKind, Path(description="pytorch, ray_job or ray_cluster.")],
    namespace: NamespacePath, name: NamePath, detail: Detail = False,
) -> Diagnosis:  # fmt: skip
    """Why a job does not run, failed, or goes on too slowly to begin."""
    return views.diagnose(room, cluster, DiagnosisAsk("job", name, namespace, kind, detail))


@router.get("/clusters/{cluster}/inference-endpoints" + _ONE, operation_id="inference_endpoint_diagnose", summary="Diagnose an endpoint")
def diagnose_endpoint(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, detail: Detail = False
) -> Diagnosis:
    """Why a managed endpoint does not answer."""
    return views.diagnose(room, cluster, DiagnosisAsk("endpoint", name, namespace, detail=detail))


@router.get("/clusters/{cluster}/model-deployments" + _ONE, operation_id="model_deployment_diagnose", summary="Diagnose a deployment")
def diagnose_deployment(
    room: RoomDep, _caller: Viewer, cluster: ClusterPath, namespace: NamespacePath, name: NamePath, detail: Detail = False
) -> Diagnosis:
    """Why a model deployment does not answer."""
    return views.diagnose(room, cluster, DiagnosisAsk("deployment", name, namespace, detail=detail))
