"""The definition of HyperPodPyTorchJob, in our own words after the field lists of the fact sheet (A16) and the SDK's model.

The fields, their types and defaults are the SDK's. What the SDK does not say and the developer guide does is here too (``faultOnMatch``,
the operators of a log rule, the values of cleanPodPolicy). A pod template is Kubernetes' own type.
"""

from __future__ import annotations

from typing import Any, Final

from ..embedded import pod_template
from ..workloads import named

Schema = dict[str, Any]
GROUP: Final = "sagemaker.amazonaws.com"
KIND: Final = "HyperPodPyTorchJob"
JOBS: Final = f"hyperpodpytorchjobs.{GROUP}"


def _text(**more: Any) -> Schema:
    return {"type": "string", **more}


def _whole(**more: Any) -> Schema:
    return {"type": "integer", "format": "int32", **more}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


_FLAG: Schema = {"type": "boolean"}
_TIME = _text(format="date-time")
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_REFERENCE = _object(
    apiVersion=_text(),
    fieldPath=_text(),
    kind=_text(),
    name=_text(),
    namespace=_text(),
    resourceVersion=_text(),
    uid=_text(),
)


def _replica() -> Schema:
    return _object(
        ("name",),
        name=_text(),
        replicas=_whole(default=0),
        maxReplicas=_whole(),
        spares=_whole(default=0),
        template=pod_template(),
    )


def _rule() -> Schema:
    return _object(
        ("logPattern", "name"),
        name=_text(),
        logPattern=_text(),
        expectedStartCutOffInSeconds=_whole(),
        expectedRecurringFrequencyInSeconds=_whole(),
        faultOnMatch=_FLAG,
        metricEvaluationDataPoints=_whole(),
        metricThreshold=_whole(),
        operator=_text(enum=["gt", "gteq", "lt", "lteq", "eq"]),
        stopPattern=_text(),
    )


def _run_policy() -> Schema:
    restart = _object(
        ("evalPeriodSeconds",),
        evalPeriodSeconds=_whole(),
        maxFullJobRestarts=_whole(),
        maxNumRepeatOffendersToAvoid=_whole(),
        numRestartBeforeFullJobRestart=_whole(),
        scaleUpSnoozeTimeInSeconds=_whole(default=0),
    )
    return _object(
        activeDeadlineSeconds={"type": "integer", "format": "int64"},
        cleanPodPolicy=_text(default="All", enum=["All", "OnlyComplete", "None"]),
        faultDeadlineSeconds=_whole(),
        jobMaxRetryCount=_whole(),
        logMonitoringConfiguration=_list(_rule()),
        restartPolicy=restart,
        startupDeadlineSeconds=_whole(),
        suspend=_FLAG,
        ttlSecondsAfterFinished=_whole(default=0),
        workloadMode=_text(),
    )


def _elastic_policy() -> Schema:
    made = _object(
        faultyScaleDownTimeoutInSeconds=_whole(),
        gracefulShutdownTimeoutInSeconds=_whole(),
        maxReplicas=_whole(),
        minReplicas=_whole(),
        replicaDiscreteValues=_list(_whole()),
        replicaIncrementStep=_whole(),
        scalingTimeoutInSeconds=_whole(),
    )
    rule = "!(has(self.replicaIncrementStep) && has(self.replicaDiscreteValues))"
    told = "replicaIncrementStep and replicaDiscreteValues are mutually exclusive"
    return {**made, "x-kubernetes-validations": [{"rule": rule, "message": told}]}


def _scaling() -> Schema:
    return _object(
        targetReplicas={"type": "object", "additionalProperties": _whole()},
        lastUpdated=_TIME,
        lastScalingTime=_TIME,
        lastRestartTime=_TIME,
        podsScaled=_FLAG,
        isFaultyPodScaleDown=_FLAG,
        consecutiveScalingFailures=_whole(),
    )


def _status() -> Schema:
    condition = _object(
        ("status", "type"),
        type=_text(),
        status=_text(),
        reason=_text(),
        message=_text(),
        lastProbeTime=_TIME,
        lastTransitionTime=_TIME,
    )
    faulty = _object(
        restartType=_text(),
        faultyInstanceIdList=_list(_text()),
        faultyPodList=_list(_text()),
        faultyRankList=_list(_text()),
    )
    restarts = _object(
        ("currentEvalPeriod", "fullJobRestartCount", "restartCount"),
        currentEvalPeriod=_whole(),
        fullJobRestartCount=_whole(),
        restartCount=_whole(),
    )
    toleration = _object(effect=_text(), key=_text(), operator=_text(), tolerationSeconds={"type": "integer"}, value=_text())
    information = _object(annotations=_STRINGS, labels=_STRINGS, nodeSelector=_STRINGS, tolerations=_list(toleration))
    return _object(
        completionTime=_TIME,
        conditions=_list(condition),
        elasticScalingStatus=_scaling(),
        elasticWorkloadRef={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        jobPods=_list(_REFERENCE),
        latestFaultyPodInstanceList=faulty,
        managerPods=_REFERENCE,
        masterAddr=_text(),
        masterPort=_text(),
        podManagerStatuses=_list(_REFERENCE),
        podSetInfos=_list(information),
        podSets=_list({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        restartCount=_whole(default=0),
        restartStatus=restarts,
        startTime=_TIME,
    )


def definition() -> Schema:
    """The CustomResourceDefinition."""
    spec = _object(
        nprocPerNode=_text(default="auto"),
        replicaSpecs=_list(_replica()),
        runPolicy=_run_policy(),
        elasticPolicy=_elastic_policy(),
    )
    whole = _object(apiVersion=_text(), kind=_text(), metadata={"type": "object"}, spec=spec, status=_status())
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": whole}}
    names = {"kind": KIND, "listKind": f"{KIND}List", "plural": "hyperpodpytorchjobs", "singular": "hyperpodpytorchjob"}
    described = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", JOBS, spec=described)
