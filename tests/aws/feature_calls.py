"""What the features slice asks of AWS: every feature on and off, upgraded, drifted by hand and repaired, and denied the one look at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from instantstart.capabilities.features import plans, specs, views, workflows
from instantstart.ensure.components import FEATURES

if TYPE_CHECKING:
    from tests.aws.everything import Everything

#: Karpenter's switch is a workflow of capacity
_SWITCHED = [name for name in FEATURES if name not in ("karpenter", "keda")]
_STALE = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


def features(run: Everything) -> None:
    """Every feature's whole life on the cluster of a run."""
    for name in _SWITCHED:
        run.run(workflows.ENABLE, specs.SwitchTarget, feature=name, ask={"enabled": True})
    asked = {"tiered_checkpointing": {"bucket": run.site.names.data_bucket, "namespace": "default"}}
    prepared = plans.prepare(run.room, run.site, specs.UpdateFeatures.model_validate(asked))
    run.told += [
        repr(plans.plan(prepared)),
        repr(views.list_features(run.room, run.tag)),
        repr(views.get_feature(run.room, run.tag, "keda")),
    ]
    iam, names = run.sandbox.client("iam", run.region), run.site.names
    for role in (names.training_operator_role, names.checkpoint_role):
        iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(_STALE))
    iam.put_role_policy(
        RoleName=names.checkpoint_role,
        PolicyName="checkpoints",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}),
    )
    run.run(workflows.REPAIR, specs.RepairTarget, features=["training_operator", "tiered_checkpointing", "mlflow", "s3_csi"])
    run.run(workflows.UPGRADE, specs.UpgradeTarget, feature="metrics_server", version="v0.7.2-eksbuild.4")
    for name in reversed(_SWITCHED):
        run.run(workflows.DISABLE, specs.SwitchTarget, feature=name, ask={"enabled": False})
    run.run(workflows.ENABLE, specs.SwitchTarget, feature="keda", ask={"enabled": True})
    run.run(workflows.DISABLE, specs.SwitchTarget, feature="keda", ask={"enabled": False})
