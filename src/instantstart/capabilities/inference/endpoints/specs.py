"""What may be asked of managed endpoints. Every description is read by a person in the console and by a model through MCP.

A group of settings (``server``, ``cache`` ...) has the same fields when an endpoint is created and when it is changed: what is left out
is filled in by the server or stays, and null takes a setting away.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Change, InstanceType, Namespace, Region, Target

Name = Annotated[
    str,
    Field(min_length=1, max_length=50, pattern=patterns.KUBERNETES_NAME, description="Name of the endpoint.", examples=["qwen-7b"]),
]
Kind = Literal["s3", "fsx", "huggingface", "volume", "jumpstart"]
Count = Annotated[int, Field(ge=0, le=1000)]
Seconds = Annotated[int, Field(ge=0, le=86_400)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Quantity = Annotated[str, Field(max_length=20, pattern=patterns.QUANTITY)]
Word = Annotated[str, Field(max_length=4096)]
VariableName = Annotated[str, Field(min_length=1, max_length=256, pattern=patterns.VARIABLE)]
SecretName = Annotated[str, Field(max_length=253, pattern=patterns.KUBERNETES_NAME)]
UrlPath = Annotated[str, Field(max_length=200, pattern=patterns.URL_PATH)]


class Source(Ask):
    """Where the model comes from. ``type`` says which of the other fields count."""

    type: Annotated[
        Kind | None,
        Field(description="s3, fsx, huggingface (the hub), volume (a claim in the namespace), or jumpstart (SageMaker's own catalogue)."),
    ] = None
    bucket: Annotated[str, Field(pattern=patterns.BUCKET)] | None = Field(None, description="s3: the bucket.")
    region: Region | None = Field(None, description="s3: the bucket's region. Left out: looked up.")
    location: Annotated[str, Field(min_length=1, max_length=500, pattern=patterns.PLAIN_FOLDER)] | None = Field(
        None, description="s3, fsx, volume: folder of the model there.", examples=["models/Qwen/Qwen3-0.6B"]
    )
    file_system_id: Annotated[str, Field(pattern=patterns.FILE_SYSTEM_ID)] | None = Field(
        None, description="fsx: an FSx for Lustre file system."
    )
    file_system_dns: Annotated[str, Field(max_length=253, pattern=patterns.DOMAIN)] | None = Field(
        None, description="fsx: its DNS name. Left out: looked up."
    )
    mount_name: Annotated[str, Field(max_length=20, pattern=patterns.ID)] | None = Field(
        None, description="fsx: its mount name. Left out: looked up."
    )
    claim: SecretName | None = Field(None, description="volume: a PersistentVolumeClaim of the namespace.", examples=["s3-claim"])
    repository: Annotated[str, Field(max_length=200, pattern=patterns.HUB_MODEL)] | None = Field(
        None, description="huggingface: owner/name.", examples=["Qwen/Qwen3-0.6B"]
    )
    commit: Annotated[str, Field(pattern=patterns.COMMIT)] | None = Field(
        None, description="huggingface: full commit. Left out: the newest one of main, pinned now."
    )
    token_secret: SecretName | None = Field(None, description="huggingface: Secret of the namespace whose key token is the hub's token.")
    model_id: Annotated[str, Field(max_length=63, pattern=patterns.INSTANCE_GROUP)] | None = Field(
        None, description="jumpstart: id of the model.", examples=["huggingface-llm-qwen2-5-7b-instruct"]
    )
    model_version: Annotated[str, Field(max_length=14, pattern=patterns.RELEASE)] | None = Field(
        None, description="jumpstart: its version. Left out: the newest."
    )
    hub: Annotated[str, Field(max_length=63, pattern=patterns.INSTANCE_GROUP)] | None = Field(
        None, description="jumpstart: a private hub. Left out: SageMaker's public one."
    )
    accept_eula: bool | None = Field(None, description="jumpstart: you accept the model's licence. A gated model needs it.")
    gated_role_arn: Annotated[str, Field(min_length=20, max_length=2048, pattern=patterns.ROLE_ARN)] | None = Field(
        None, description="jumpstart: role that downloads a gated model. Left out: the operator's own."
    )
    prefetch: bool | None = Field(None, description="Read the model into memory first, where it fits. Not for jumpstart.")


class SecretVariable(Ask):
    """A variable whose value is a key of a Secret."""

    name: VariableName
    secret: SecretName
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=patterns.LABEL_KEY)]


class Server(Ask):
    """The container that serves. Not for jumpstart, except ``env``."""

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=patterns.PRINTABLE)] | None = Field(
        None, description="Image of the server.", examples=["vllm/vllm-openai:v0.11.0"]
    )
    command: Annotated[list[Word], Field(max_length=100)] | None = Field(
        None, description="Entry point as a list of words; no shell reads it. Left out: the image's."
    )
    args: Annotated[list[Word], Field(max_length=200)] | None = Field(
        None, description="Arguments as a list of words.", examples=[["--model", "/opt/ml/model", "--port", "8000"]]
    )
    port: Port | None = Field(None, description="Port the server listens on. Left out: 8000.")
    mount_path: UrlPath | None = Field(None, description="Where the model is seen in the container. Left out: /opt/ml/model.")
    env: Annotated[dict[VariableName, Word], Field(max_length=100)] | None = Field(
        None, description="Variables. The whole set; they cannot be changed later."
    )
    secret_env: Annotated[list[SecretVariable], Field(max_length=50)] | None = Field(
        None, description="Variables with values from Secrets. The whole set; they cannot be changed later."
    )
    working_dir: UrlPath | None = Field(None, description="Working directory.")
    accelerators: Annotated[int, Field(ge=0, le=64)] | None = Field(
        None, description="GPUs (or Neuron devices) of each replica. Never guessed: 0 says none.", examples=[1]
    )
    accelerator_resource: Annotated[str, Field(max_length=100, pattern=patterns.LABEL_KEY)] | None = Field(
        None, description="What counts them. Left out: by the instance type.", examples=["nvidia.com/gpu"]
    )
    cpu: Quantity | None = Field(None, description="CPU of each replica. Left out: nothing is asked for.")
    memory: Quantity | None = Field(None, description="Memory of each replica. Left out: nothing is asked for.")
    health_path: UrlPath | None = Field(None, description="Path that answers 200 when the server is ready. Left out: /health.")
    probe_port: Port | None = Field(None, description="Port of the probes. It must be the server's port; left out, it is.")
    startup_seconds: Annotated[int, Field(ge=60, le=7200)] | None = Field(
        None, description="Longest time to load the model, before a replica counts as dead. Left out: 1800."
    )
    max_concurrent_requests: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Requests one replica takes at once. Left out: no limit."
    )
    max_queue_size: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        None, description="Requests that may wait for it; needs max_concurrent_requests."
    )
    overflow_status: Annotated[int, Field(ge=400, le=599)] | None = Field(
        None, description="HTTP status for requests beyond; needs max_concurrent_requests."
    )


class Metrics(Ask):
    """What is scraped from the server."""

    enabled: bool | None = Field(None, description="Left out: yes.")
    path: UrlPath | None = Field(None, description="Left out: /metrics.")
    port: Annotated[int, Field(ge=1024, le=65_535)] | None = Field(None, description="It must be the server's port; left out, it is.")
    interval_seconds: Annotated[int, Field(ge=5, le=300)] | None = Field(None, description="Left out: 15.")


class Cache(Ask):
    """The tiered key-value cache (vLLM only)."""

    l1: bool | None = Field(None, description="First tier, in the CPU memory of the replica. Left out: yes.")
    l2: Literal["none", "redis", "tieredstorage"] | None = Field(
        None, description="Second tier: redis (yours), or tieredstorage (the cluster's managed memory). Left out: none."
    )
    redis_url: Annotated[str, Field(max_length=500, pattern=patterns.REDIS_URL)] | None = Field(
        None, description="l2 redis: its address.", examples=["redis://cache.default:6379"]
    )
    config_file: UrlPath | None = Field(None, description="A cache configuration in the container; it overrides these settings.")


class Routing(Ask):
    """Routing of requests to the replica that knows most of them (vLLM only). It cannot be switched on later."""

    enabled: bool | None = Field(None, description="Fixed when the endpoint is created. Left out: yes, where this group is given.")
    strategy: Literal["prefixaware", "kvaware", "session", "roundrobin"] | None = Field(
        None, description="By prompt prefix, by cache content, by session, or in turn. Left out: prefixaware."
    )
    session_key: Annotated[str, Field(max_length=200, pattern=patterns.HEADER)] | None = Field(
        None, description="session, kvaware: header or field that names the session.", examples=["x-user-id"]
    )


class Dimension(Ask):
    """One dimension of a CloudWatch metric."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    value: Annotated[str, Field(min_length=1, max_length=1024)]


class Trigger(Ask):
    """One thing that scales: a CloudWatch metric or a Prometheus query."""

    type: Literal["cloudwatch", "prometheus"]
    name: Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.KUBERNETES_NAME)]
    target: Annotated[float, Field(gt=0, le=1e12, description="Value of one replica at which there are enough.")]
    activation: Annotated[float, Field(ge=0, le=1e12, description="Value above which it leaves zero replicas.")] = 0.0
    namespace: Annotated[str, Field(max_length=255)] | None = Field(
        None, description="cloudwatch: the metric's namespace.", examples=["AWS/SageMaker"]
    )
    metric: Annotated[str, Field(max_length=255)] | None = Field(None, description="cloudwatch: the metric's name.")
    statistic: Literal["Average", "Sum", "Maximum", "Minimum", "SampleCount"] | None = Field(
        None, description="cloudwatch: left out: Average."
    )
    dimensions: Annotated[list[Dimension], Field(max_length=30)] | None = Field(None, description="cloudwatch: the metric's dimensions.")
    workspace: Annotated[str, Field(max_length=300, pattern=patterns.WORKSPACE_URL)] | None = Field(
        None, description="prometheus: address of the Amazon Managed Prometheus workspace. Left out: the cluster's own."
    )
    query: Annotated[str, Field(max_length=2000)] | None = Field(None, description="prometheus: the query (PromQL); one number.")


class Autoscaling(Ask):
    """KEDA scales the replicas. It then owns their number."""

    min_replicas: Count | None = Field(None, description="Left out: 1.")
    max_replicas: Count | None = Field(None, description="Left out: 5.")
    triggers: Annotated[list[Trigger], Field(max_length=20)] | None = Field(None, description="What scales. The whole set.")
    polling_seconds: Annotated[int, Field(ge=1, le=3600)] | None = Field(None, description="Left out: 30.")
    cooldown_seconds: Seconds | None = Field(None, description="Quiet time before it goes to min_replicas. Left out: 300.")
    scale_up_seconds: Seconds | None = Field(None, description="How long a rise must last. Left out: 0.")
    scale_down_seconds: Seconds | None = Field(None, description="How long a fall must last. Left out: 300.")


class LoadBalancer(Ask):
    """The application load balancer in front."""

    health_path: UrlPath | None = Field(None, description="Left out: /ping, which the operator answers.")
    algorithm: Literal["least_outstanding_requests", "round_robin"] | None = Field(
        None, description="Left out: least_outstanding_requests."
    )


class Tls(Ask):
    """The certificate. Left out: the operator makes one and keeps it in the cluster's TLS bucket."""

    output_s3_uri: Annotated[str, Field(max_length=512, pattern=patterns.S3_URI)] | None = Field(
        None, description="Where the operator keeps its own certificate."
    )
    certificate_arn: Annotated[str, Field(max_length=300, pattern=patterns.CERTIFICATE_ARN)] | None = Field(
        None, description="A certificate of yours in ACM; needs domain_name."
    )
    domain_name: Annotated[str, Field(max_length=253, pattern=patterns.DOMAIN)] | None = Field(
        None, description="Domain of that certificate to use; no wildcard."
    )
    hosted_zone_id: Annotated[str, Field(max_length=64, pattern=patterns.HOSTED_ZONE)] | None = Field(
        None, description="Route 53 zone in which the name is made; needs certificate_arn."
    )


class EndpointSettings(Ask):
    """Everything of an endpoint but its name and place."""

    source: Source | None = Field(None, description="The model.")
    server: Server | None = Field(None, description="The container that serves it.")
    instance_types: Annotated[list[InstanceType], Field(max_length=10)] | None = Field(
        None, description="Types to run on, the most wanted first. jumpstart takes one."
    )
    replicas: Count | None = Field(None, description="Replicas. Left out: 1. Not together with autoscaling.")
    model_name: Annotated[str, Field(max_length=63, pattern=patterns.INSTANCE_GROUP)] | None = Field(
        None, description="What SageMaker calls the model. Left out: the endpoint's name."
    )
    sagemaker_endpoint: Annotated[str, Field(max_length=63, pattern=patterns.INSTANCE_GROUP)] | None = Field(
        None, description="Also register a SageMaker endpoint of this name. Left out: none."
    )
    invocation_path: Annotated[str, Field(min_length=1, max_length=200, pattern=patterns.CALL_PATH)] | None = Field(
        None, description="Path that requests to the endpoint go to. Left out: v1/chat/completions.", examples=["v1/chat/completions"]
    )
    max_deploy_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = Field(
        None, description="After so long the operator gives a deployment up. Left out: 3600."
    )
    metrics: Metrics | None = Field(None, description="What is scraped from the server.")
    cache: Cache | None = Field(None, description="The tiered key-value cache. Left out: none.")
    routing: Routing | None = Field(None, description="Routing by cache, session or turn. Left out: none; it cannot be switched on later.")
    autoscaling: Autoscaling | None = Field(None, description="Replicas by metrics. Left out: a fixed number.")
    load_balancer: LoadBalancer | None = Field(None, description="The load balancer in front.")
    tls: Tls | None = Field(None, description="The certificate. Left out: the operator makes one.")


class CreateInferenceEndpoint(EndpointSettings):
    """Ask for a managed endpoint. It is complete when the model has answered."""

    name: Name
    namespace: Namespace = "default"


class UpdateInferenceEndpoint(EndpointSettings, Change):
    """Ask for changes of an endpoint: what is left out stays, also within a group; null takes a setting away."""

    as_serving: bool = Field(False, description="Alone: ask for what is served now, after a change that was rolled back.")

    def says(self, name: str) -> bool:
        """null takes a setting away."""
        return name != "as_serving" or self.as_serving


class EndpointTarget(Target):
    """Which endpoint: ``kind`` is InferenceEndpointConfig or JumpStartModel."""

    namespace: str
    name: str
    kind: str


class CreateTarget(EndpointTarget):
    """inference_endpoint.create: its settings whole, as they were checked and filled in."""

    settings: dict[str, Any]


class UpdateTarget(EndpointTarget):
    """inference_endpoint.update: the settings before, and the whole of those that are asked for.

    ``word``: what the operator had said of an earlier rollback by then, so that it is not taken for one of this change.
    """

    before: dict[str, Any]
    settings: dict[str, Any]
    word: str | None = None


class DeleteTarget(EndpointTarget):
    """inference_endpoint.delete: that very object."""

    uid: str


def subject(target: EndpointTarget) -> str:
    """What an operation works on: one endpoint."""
    return f"endpoint/{target.region}/{target.tag}/{target.namespace}/{target.name}"
