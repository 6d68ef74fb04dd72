"""The definitions of InferenceEndpointConfig, JumpStartModel and SageMakerEndpointRegistration, after the field lists of the fact sheet.

Fields, types, enums, patterns, bounds and defaults are those of the operator 3.2; embedded types are Kubernetes' own. The operator's
webhook is stood in for by rules in the schema: one instance wish, and routing that cannot be switched afterwards.
"""

from __future__ import annotations

from typing import Any, Final

from ..embedded import embedded
from ..workloads import named

Schema = dict[str, Any]
GROUP: Final = "inference.sagemaker.aws.amazon.com"
CONFIGS: Final = f"inferenceendpointconfigs.{GROUP}"
JUMPSTART: Final = f"jumpstartmodels.{GROUP}"
REGISTRATIONS: Final = f"sagemakerendpointregistrations.{GROUP}"
_CORE = "io.k8s.api.core.v1."
_ROLE = r"^arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$"
_NAME = "^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
_DNS = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_WORKSPACE = r"^https:\/\/aps-workspaces\.[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*\.amazon" + r"aws\.com\/workspaces\/ws-[a-zA-Z0-9-]+$|^$"


def _text(**more: Any) -> Schema:
    return {"type": "string", **more}


def _whole(**more: Any) -> Schema:
    return {"type": "integer", "format": "int32", **more}


def _number(**more: Any) -> Schema:
    return {"type": "number", **more}


def _flag(**more: Any) -> Schema:
    return {"type": "boolean", **more}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _core(name: str) -> Schema:
    return embedded(_CORE + name)


def _ruled(schema: Schema, *rules: tuple[str, str]) -> Schema:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_PAIR = _object(("name", "value"), name=_text(), value=_text())
_COMMON_TRIGGER = {
    "activationTargetValue": _number(default=0),
    "metricType": _text(enum=["Value", "Average"], default="Average"),
    "name": _text(),
    "namespace": _text(),
    "targetValue": _number(),
    "useCachedMetrics": _flag(default=True),
}
_CLOUDWATCH = _object(
    dimensions=_list(_PAIR),
    metricCollectionPeriod=_whole(default=300),
    metricCollectionStartTime=_whole(default=300),
    metricName=_text(),
    metricStat=_text(default="Average"),
    minValue=_number(default=0),
    **_COMMON_TRIGGER,
)
_PROMETHEUS = _object(customHeaders=_text(), query=_text(), serverAddress=_text(pattern=_WORKSPACE), **_COMMON_TRIGGER)
_SCALING = _object(
    cloudWatchTrigger=_CLOUDWATCH,
    cloudWatchTriggerList=_list(_CLOUDWATCH, maxItems=100),
    cooldownPeriod=_whole(default=300, minimum=0),
    initialCooldownPeriod=_whole(default=300, minimum=0),
    maxReplicaCount=_whole(default=5, minimum=0),
    minReplicaCount=_whole(default=1, minimum=0),
    pollingInterval=_whole(default=30, minimum=0),
    prometheusTrigger=_PROMETHEUS,
    prometheusTriggerList=_list(_PROMETHEUS, maxItems=100),
    scaleDownStabilizationTime=_whole(default=300, minimum=0),
    scaleUpStabilizationTime=_whole(default=0, minimum=0),
)
_TYPES_OF_CONTENT = _list(_text(), minItems=1, maxItems=10)
_CAPTURE: dict[str, Schema] = {
    "captureContentTypeHeader": _object(csvContentTypes=_TYPES_OF_CONTENT, jsonContentTypes=_TYPES_OF_CONTENT),
    "captureOptions": _list(_object(("captureMode",), captureMode=_text(enum=["Input", "Output"])), minItems=1, maxItems=32),
    "enabled": _flag(),
    "initialSamplingPercentage": _whole(minimum=0, maximum=100),
    "kmsKeyId": _text(pattern="^[a-zA-Z0-9:/_-]*$", maxLength=2048),
}
_BUFFER = _object(batchSize=_whole(default=10, minimum=1, maximum=1000), flushIntervalSeconds=_whole(default=60, minimum=10, maximum=300))
_DATA_CAPTURE = _object(
    loadBalancer=_object(("enabled",), enabled=_flag()),
    modelPod=_object(
        ("enabled",),
        bufferConfig=_BUFFER,
        payloadConfig=_object(maxPayloadSizeKB=_whole(default=0, minimum=0, maximum=10240)),
        **_CAPTURE,
    ),
    s3Uri=_text(pattern="^s3://([^/]+)(/[^,=]*)?$", maxLength=512),
    sagemakerEndpoint=_object(("enabled",), **_CAPTURE),
)
_SHARED: dict[str, Schema] = {
    "autoScalingSpec": _SCALING,
    "dataCapture": _DATA_CAPTURE,
    "dnsConfig": _object(("hostedZoneId",), hostedZoneId=_text(pattern="^Z[A-Z0-9]+$")),
    "intelligentRoutingSpec": _object(
        autoScalingSpec=_SCALING,
        enabled=_flag(default=False),
        routingStrategy=_text(enum=["prefixaware", "kvaware", "session", "roundrobin"], default="prefixaware"),
    ),
    "kvCacheSpec": _object(
        cacheConfigFile=_text(),
        enableL1Cache=_flag(default=True),
        enableL2Cache=_flag(default=False),
        l2CacheSpec=_object(l2CacheBackend=_text(pattern="(?i)redis|tieredstorage"), l2CacheLocalUrl=_text()),
    ),
    "loadBalancer": _object(
        healthCheckPath=_text(default="/ping", pattern="^/.*"),
        routingAlgorithm=_text(enum=["least_outstanding_requests", "round_robin"], default="least_outstanding_requests"),
    ),
    "maxDeployTimeInSeconds": _whole(default=3600),
    "metrics": _object(
        enabled=_flag(default=True),
        metricsScrapeIntervalSeconds=_whole(default=15, minimum=5, maximum=300),
        modelMetrics=_object(
            path=_text(default="/metrics", pattern=r"^/[a-zA-Z0-9\-_.\/]*$"), port=_whole(default=8080, minimum=1024, maximum=65535)
        ),
    ),
    "replicas": _whole(default=1),
    "tlsConfig": _object(
        customCertificateConfig=_object(
            ("acmArn", "domainName"),
            acmArn=_text(pattern="^arn:" + "aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$"),
            domainName=_text(pattern=_DNS, maxLength=253),
        ),
        tlsCertificateOutputS3Uri=_text(pattern="^s3://([^/]+)/?(.*)$"),
    ),
}
_SOURCE = _object(
    ("modelSourceType",),
    fsxStorage=_object(("fileSystemId",), dnsName=_text(), fileSystemId=_text(), mountName=_text()),
    huggingFaceModel=_object(
        ("modelId",),
        commitSHA=_text(pattern="^[0-9a-f]{40}$"),
        modelId=_text(pattern="^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$"),
        tokenSecretRef=_object(("key",), key=_text(), name=_text(default=""), optional=_flag()),
    ),
    modelLocation=_text(),
    modelSourceType=_text(enum=["fsx", "s3", "huggingface", "kubernetesVolume"]),
    prefetchEnabled=_flag(default=False),
    s3Storage=_object(("bucketName", "region"), bucketName=_text(), region=_text()),
)


def _worker() -> Schema:
    variable = _object(("name",), name=_text(), value=_text(), valueFrom=_core("EnvVarSource"))
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    limits = _object(
        maxConcurrentRequests=_whole(minimum=1),
        maxQueueSize=_whole(minimum=0),
        overflowStatusCode=_whole(default=429, minimum=400, maximum=599),
    )
    return _object(
        ("image", "modelInvocationPort", "modelVolumeMount", "resources"),
        args=_list(_text()),
        command=_list(_text()),
        environmentVariables=_list(variable, **keyed),
        image=_text(),
        modelInvocationPort=_object(
            ("containerPort",), containerPort=_whole(minimum=1, maximum=65535), name=_text(default="http", pattern="^http$|^grpc$")
        ),
        modelVolumeMount=_object(("name",), mountPath=_text(default="/opt/ml/model"), name=_text()),
        probes=_object(**{f"{kind}Probe": _core("Probe") for kind in ("liveness", "readiness", "startup")}),
        requestLimits=limits,
        resources=_core("ResourceRequirements"),
        workingDir=_text(),
    )


def _split() -> Schema:
    half = _object(
        args=_list(_text()), nodeSelector=_STRINGS, replicas=_whole(default=1, minimum=1), resources=_core("ResourceRequirements")
    )
    return _object(
        ("decodingSpec", "prefillSpec"),
        autoScalingSpec=_object(decodingAutoScaling=_SCALING, prefillAutoScaling=_SCALING),
        decodingSpec=half,
        prefillSpec=half,
        routingThreshold=_whole(default=4096, minimum=0),
        topologySpec=_object(availabilityZone=_text(), placementGroup=_text(), sameAZ=_flag(default=True)),
    )


_ROUTED = "has({0}.intelligentRoutingSpec) && has({0}.intelligentRoutingSpec.enabled) && {0}.intelligentRoutingSpec.enabled"
_FIXED_ROUTING = (
    f"({_ROUTED.format('self')}) == ({_ROUTED.format('oldSelf')})",
    "intelligentRoutingSpec.enabled cannot be changed after the endpoint was created",
)


def _config_schema() -> Schema:
    kubernetes = _object(
        initContainers=_list(_core("Container")),
        schedulerName=_text(pattern=_DNS, maxLength=253),
        serviceAccountName=_text(pattern=_DNS, maxLength=253),
        volumes=_list(_core("Volume")),
    )
    spec = _object(
        ("modelName", "modelSourceConfig", "worker"),
        InitialReplicaCount=_whole(),
        endpointName=_text(pattern=f"^$|{_NAME}$", maxLength=63),
        instanceType=_text(pattern=r"^ml\..*"),
        instanceTypes=_list(_text()),
        invocationEndpoint=_text(default="invocations"),
        kubernetes=kubernetes,
        modelName=_text(pattern=_NAME, maxLength=63),
        modelSourceConfig=_SOURCE,
        modelVersion=_text(),
        nodeAffinity=_core("NodeAffinity"),
        pdSpec=_split(),
        tags=_list(_PAIR),
        worker=_worker(),
        **_SHARED,
    )
    return _object(spec=_ruled(spec, _FIXED_ROUTING), status=_status())


def _jumpstart_schema() -> Schema:
    model = _object(
        ("acceptEula", "modelId"),
        acceptEula=_flag(default=False),
        additionalConfigs=_list(_PAIR, maxItems=10),
        gatedModelDownloadRole=_text(pattern=_ROLE, minLength=20, maxLength=2048),
        modelHubName=_text(default="SageMakerPublicHub", pattern=f"{_NAME}$", maxLength=63),
        modelId=_text(pattern=f"{_NAME}$", maxLength=63),
        modelVersion=_text(pattern=r"^\d{1,4}.\d{1,4}.\d{1,4}$", minLength=5, maxLength=14),
    )
    server = _object(
        ("instanceType",),
        acceleratorPartitionType=_text(pattern="^mig-.*$"),
        executionRole=_text(pattern=_ROLE, minLength=20, maxLength=2048),
        instanceType=_text(pattern=r"^ml\..*"),
        validations=_object(acceleratorPartitionValidation=_flag(default=True)),
    )
    spec = _object(
        ("model", "server"),
        environmentVariables=_list(_PAIR, maxItems=100),
        model=model,
        sageMakerEndpoint=_object(name=_text(default="", pattern=f"^$|{_NAME}$", maxLength=63)),
        server=server,
        **_SHARED,
    )
    return _object(spec=_ruled(spec, _FIXED_ROUTING), status=_status())


_TIME = _text(format="date-time")
_CONDITIONS = _list(
    _object(
        ("type", "status"),
        type=_text(),
        status=_text(enum=["True", "False", "Unknown"]),
        reason=_text(),
        message=_text(),
        lastTransitionTime=_TIME,
        observedGeneration={"type": "integer", "format": "int64"},
    )
)
STATES = tuple(f"Deployment{s}" for s in ("Pending", "InProgress", "Failed", "Complete")) + tuple(
    f"Deletion{s}" for s in ("Pending", "InProgress", "Failed", "Complete")
)


def _status() -> Schema:
    texts = {name: _text() for name in ("certificateName", "issuerName", "tlsCertificateOutputS3Bucket")}
    lists = {name: _list(_text()) for name in ("certificateDomainNames", "importedCertificates", "tlsCertificateS3Keys")}
    capture = _object(("status",), lastTransitionTime=_TIME, message=_text(), reason=_text(), status=_text(enum=["Healthy", "Unhealthy"]))
    dns = {name: _text() for name in ("hostedZoneId", "message", "previousHostedZoneId", "previousRecordName", "recordName")}
    return _object(
        conditions=_CONDITIONS,
        dataCaptureStatus=_object(modelPod=capture),
        deploymentStatus=_object(
            ("lastUpdated", "name"),
            lastUpdated=_TIME,
            status=embedded("io.k8s.api.apps.v1.DeploymentStatus"),
            **{name: _text() for name in ("deploymentObjectOverallState", "message", "name", "reason")},
        ),
        dnsStatus=_object(
            ("managedByOperator",),
            dnsHealth=_text(enum=["Active", "Pending", "Error"]),
            lastTransitionTime=_TIME,
            managedByOperator=_flag(),
            **dns,
        ),
        endpoints=_object(sagemaker=_object(("state",), configArn=_text(), endpointArn=_text(), modelArn=_text(), state=_text())),
        metricsStatus=_object(
            ("enabled",),
            enabled=_flag(),
            **dict.fromkeys(("errorMessage", "state"), _text()),
            metricsScrapeIntervalSeconds=_whole(),
            modelMetrics=_object(path=_text(), port=_whole()),
        ),
        observedGeneration={"type": "integer", "format": "int64"},
        replicas=_whole(),
        selector=_text(),
        state=_text(enum=list(STATES)),
        tlsCertificate=_object(
            certificateARN=_text(),
            certificateHealth=_text(enum=["Valid", "Expiring", "Expired"]),
            lastCertExpiryTime=_TIME,
            **texts,
            **lists,
        ),
    )


def _registration_schema() -> Schema:
    cluster = _object(
        ("arn", "clusterSecurityGroupId", "name", "securityGroupIds", "subnetIds", "vpcId"),
        arn=_text(),
        clusterSecurityGroupId=_text(),
        name=_text(),
        securityGroupIds=_list(_text()),
        subnetIds=_list(_text()),
        vpcId=_text(),
    )
    names = ("executionRole", "imageUri", "instanceType", "invocationEndpoint", "loadBalancerHostName", "name", "restApiId")
    required = ("eksClusterDetails", *(n for n in names if n != "invocationEndpoint"))
    spec = _object(required, eksClusterDetails=cluster, **{n: _text() for n in names})
    spec["properties"]["name"] = _text(pattern=_NAME, maxLength=63)
    spec["properties"]["executionRole"] = _text(pattern=_ROLE, minLength=20, maxLength=2048)
    spec["properties"]["invocationEndpoint"] = _text(default="invocations")
    found = {n: _text() for n in ("endpointArn", "endpointConfigArn", "modelArn", "state", "message")}
    return _object(spec=spec, status=_object(conditions=_CONDITIONS, **found))


def _definition(kind: str, plural: str, schema: Schema, scaled: bool) -> dict[str, Any]:
    subresources: Schema = {"status": {}}
    if scaled:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": subresources}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{GROUP}", spec=spec)


def definitions() -> list[dict[str, Any]]:
    """The three definitions."""
    return [
        _definition("InferenceEndpointConfig", "inferenceendpointconfigs", _config_schema(), scaled=True),
        _definition("JumpStartModel", "jumpstartmodels", _jumpstart_schema(), scaled=True),
        _definition("SageMakerEndpointRegistration", "sagemakerendpointregistrations", _registration_schema(), scaled=False),
    ]
