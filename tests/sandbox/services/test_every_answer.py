"""Every operation of EKS and HyperPod is answered once, and every answer fits botocore's output shape.

The gateway checks each owned answer against the model (missing, unknown or mistyped members) and records a breach as a
crash; the ``account`` fixture fails on any. This test makes sure that no operation escapes.
"""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.services import eks, hyperpod
from instantstart_sandbox.services.hyperpod import tags
from instantstart_sandbox.services.hyperpod.scenarios import VERBS

from .conftest import Account

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


def _owned() -> set[tuple[str, str]]:
    of_eks = {("eks", name) for module in eks._MODULES for name in getattr(module, "OPERATIONS", {})}
    of_hyperpod = {("sagemaker", name) for module in hyperpod._MODULES for name in getattr(module, "OPERATIONS", {})}
    return of_eks | of_hyperpod | {("sagemaker", name) for name in tags.GUARDS}


def _tour_eks(account: Account) -> None:
    eks_client, name = account.eks, {"clusterName": "demo"}
    VERBS["POST", "scenario/nodegroup"](account.world, {"cluster_arn": account.eks_arn, "name": "ng", "role_arn": account.node_role})
    for operation in ("list_clusters", "describe_cluster_versions", "list_access_policies", "describe_addon_versions"):
        getattr(eks_client, operation)()
    eks_client.describe_cluster(name="demo")
    eks_client.describe_nodegroup(**name, nodegroupName="ng")
    eks_client.list_nodegroups(**name)
    eks_client.delete_nodegroup(**name, nodegroupName="ng")
    _tour_access(account, {**name, "principalArn": account.node_role})
    pods = account.role("pods", "pods.eks.amazonaws.com")
    account.warp(300)
    made = eks_client.create_pod_identity_association(**name, namespace="a", serviceAccount="b", roleArn=pods)["association"]
    one = {**name, "associationId": made["associationId"]}
    eks_client.update_pod_identity_association(**one, roleArn=pods)
    eks_client.describe_pod_identity_association(**one)
    eks_client.list_pod_identity_associations(**name)
    eks_client.delete_pod_identity_association(**one)
    _tour_addon(account, {**name, "addonName": "coredns"})
    update = eks_client.update_cluster_config(name="demo", deletionProtection=True)["update"]
    eks_client.describe_update(name="demo", updateId=update["id"])
    eks_client.list_updates(name="demo")
    account.warp(400)
    eks_client.update_cluster_version(name="demo", version="1.35")
    account.warp(400)


def _tour_access(account: Account, entry: dict[str, Any]) -> None:
    client = account.eks
    client.create_access_entry(**entry)
    client.update_access_entry(**entry, kubernetesGroups=["x"])
    client.describe_access_entry(**entry)
    client.list_access_entries(clusterName="demo")
    client.associate_access_policy(**entry, policyArn=ADMIN, accessScope={"type": "cluster"})
    client.list_associated_access_policies(**entry)
    client.disassociate_access_policy(**entry, policyArn=ADMIN)
    client.delete_access_entry(**entry)


def _tour_addon(account: Account, addon: dict[str, Any]) -> None:
    client = account.eks
    made = client.create_addon(**addon, tags={"a": "b"})["addon"]
    client.describe_addon_configuration(addonName=addon["addonName"], addonVersion=made["addonVersion"])
    account.warp(50)
    client.update_addon(**addon, configurationValues='{"replicaCount":2}')
    account.warp(50)
    client.describe_addon(**addon)
    client.list_addons(clusterName="demo")
    client.tag_resource(resourceArn=made["addonArn"], tags={"c": "d"})
    client.list_tags_for_resource(resourceArn=made["addonArn"])
    client.untag_resource(resourceArn=made["addonArn"], tagKeys=["c"])
    client.delete_addon(**addon)
    account.warp(50)


def _tour_hyperpod(account: Account) -> None:
    client, name = account.sagemaker, {"ClusterName": "hp"}
    arn = account.hyperpod(account.group(), account.group("second", count=0))
    client.list_clusters()
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    client.list_tags(ResourceArn=arn)
    client.delete_tags(ResourceArn=arn, TagKeys=["a"])
    one, two = (n["InstanceId"] for n in account.nodes())
    client.describe_cluster_node(**name, NodeId=one)
    way = {"SourceClusterArn": arn, "TargetClusterArn": arn}
    for here, there in (("workers", "second"), ("second", "workers")):
        client.move_cluster_nodes(**way, SourceInstanceGroupName=here, TargetInstanceGroupName=there, NodeIds=[one])
    client.batch_reboot_cluster_nodes(**name, NodeIds=[one])
    client.batch_replace_cluster_nodes(**name, NodeIds=[two])
    account.warp(700)
    client.batch_add_cluster_nodes(**name, NodesToAdd=[{"InstanceGroupName": "workers", "IncrementTargetCountBy": 1}])
    client.batch_delete_cluster_nodes(**name, NodeIds=[account.nodes()[0]["InstanceId"]])
    client.update_cluster(**name, InstanceGroups=[account.group(count=1)])
    checks = [{"InstanceGroupName": "workers", "DeepHealthChecks": ["InstanceStress"]}]
    client.start_cluster_health_check(**name, DeepHealthCheckConfigurations=checks)
    operation = client.list_cluster_operations(**name)["ClusterOperationSummaries"][0]
    client.describe_cluster_operation(**name, OperationId=operation["OperationId"])
    for event in client.list_cluster_events(**name)["Events"]:
        client.describe_cluster_event(**name, EventId=event["EventId"])
    account.warp(4000)
    client.update_cluster_software(**name)
    account.warp(1000)
    account.describe()
    client.delete_cluster(**name)
    account.warp(400)


def _tour_plans(account: Account) -> None:
    client = account.sagemaker
    offering = client.search_training_plan_offerings(InstanceType="ml.p5.48xlarge", InstanceCount=1, TargetResources=["hyperpod-cluster"])
    client.create_training_plan(TrainingPlanName="p", TrainingPlanOfferingId=offering["TrainingPlanOfferings"][0]["TrainingPlanOfferingId"])
    client.describe_training_plan(TrainingPlanName="p")
    client.list_training_plans()


def test_every_operation_answers_in_its_shape(hyperpod_account: Account) -> None:
    _tour_eks(hyperpod_account)
    _tour_plans(hyperpod_account)
    _tour_hyperpod(hyperpod_account)
    hyperpod_account.eks.update_cluster_config(name="demo", deletionProtection=False)
    hyperpod_account.warp(400)
    hyperpod_account.eks.delete_cluster(name="demo")
    answered = {(e["service"], e["operation"]) for e in hyperpod_account.world.journal.since() if not e["error"]}
    assert _owned() - answered == set()
