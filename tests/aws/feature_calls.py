"""What the features slice asks of AWS: every feature on and off, upgraded, drifted by hand and repaired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from instantstart.capabilities.features import plans, specs, views, workflows
from instantstart.ensure.inference import metric_queries

if TYPE_CHECKING:
    from tests.aws.everything import Everything

_STALE = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def features(run: Everything) -> None:
    """Every feature's whole life on the cluster of a run, few at a time: one node has room for so many pods."""
    _switch(run, "metrics_server", on=True)
    run.run(workflows.UPGRADE, specs.UpgradeTarget, feature="metrics_server", version="v0.7.2-eksbuild.4")
    for name in ("training_operator", "tiered_checkpointing"):
        _switch(run, name, on=True)
    _look(run)
    _drift(run)
    run.run(workflows.REPAIR, specs.RepairTarget, features=["training_operator", "tiered_checkpointing", "mlflow", "s3_csi"])
    for name in ("training_operator", "tiered_checkpointing"):
        _switch(run, name, on=False)
    metrics = ("observability",) if run.site.aws.is_in_partition("amp") else ()  # China has no Prometheus
    for name in ("task_governance", "kuberay", "keda", *metrics, "inference_operator"):
        _switch(run, name, on=True)
        _switch(run, name, on=False)
    _query(run)
    for name in ("fsx_csi", "metrics_server", "cert_manager"):
        _switch(run, name, on=False)


def _query(run: Everything) -> None:
    """A query as an autoscaler's is tried: the workspace outlives observability."""
    source = metric_queries.workspace(run.site, None)
    if source is not None:
        run.told.append(repr(metric_queries.ask(run.site, run.site.kube(run.room), source, "up")))


def _switch(run: Everything, name: str, *, on: bool) -> None:
    run.run(workflows.ENABLE if on else workflows.DISABLE, specs.SwitchTarget, feature=name, ask={"enabled": on})


def _look(run: Everything) -> None:
    asked = {"tiered_checkpointing": {"bucket": run.site.names.data_bucket, "namespace": "default"}, "fsx_csi": {"enabled": True}}
    prepared = plans.prepare(run.room, run.site, specs.UpdateFeatures.model_validate(asked))
    answers = (plans.plan(prepared), views.list_features(run.room, run.tag), views.get_feature(run.room, run.tag, "keda"))
    run.told += [repr(answer) for answer in answers]


def _drift(run: Everything) -> None:
    iam, names = run.sandbox.client("iam", run.region), run.site.names
    for role in (names.training_operator_role, names.checkpoint_role):
        iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(_STALE))
    nothing = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}
    iam.put_role_policy(RoleName=names.checkpoint_role, PolicyName="checkpoints", PolicyDocument=json.dumps(nothing))
