"""Changes something of ours and changes it back, between two looks: what nobody has seen must not matter (Sieve: unobserved state)."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from tests.clusters.crank import Turned
from tests.clusters.worlds import REGION
from tests.weather.ground import Ground

from instantstart.base import problems
from instantstart.kube.client import FIELD_MANAGER

_KINDS = ("ServiceAccount", "ConfigMap", "DaemonSet", "Deployment", "ClusterRole")


class Gremlin:
    """One trick before every other look. Each trick leaves the world as it found it, but for ids, versions and ages."""

    def __init__(self, ground: Ground, seed: int = 3) -> None:
        self._ground, self._chance, self._looks = ground, random.Random(seed), 0
        self._tricks: tuple[Callable[[], None], ...] = (
            self.tag_of_a_subnet,
            self.policy_of_a_role,
            self.access_entry,
            self.object_of_ours,
            self.object_made_anew,
            self.file_in_a_bucket,
        )

    def strike(self, _turned: Turned, _stage: str) -> None:
        """Play a trick, if there is something to play it on."""
        self._looks += 1
        if self._looks % 2:
            with contextlib.suppress(problems.Problem, ClientError):  # what is not there yet, or is just going, is left alone
                self._chance.choice(self._tricks)()

    def tag_of_a_subnet(self) -> None:
        """The tag by which we know a subnet is taken off and put on again."""
        ec2 = self._ground.sandbox.client("ec2")
        mine = ec2.describe_subnets(Filters=[{"Name": "tag:instantstart.dev/cluster", "Values": [self._ground.tag]}])["Subnets"]
        subnet = self._chance.choice(mine) if mine else None
        if subnet:
            tags = [t for t in subnet["Tags"] if t["Key"] == "instantstart.dev/cluster"]
            ec2.delete_tags(Resources=[subnet["SubnetId"]], Tags=tags)
            ec2.create_tags(Resources=[subnet["SubnetId"]], Tags=tags)

    def policy_of_a_role(self) -> None:
        """A managed policy is detached from one of our roles and attached again."""
        iam = self._ground.sandbox.client("iam")
        for role in (self._ground.site.names.execution_role, self._ground.site.names.eks_role):
            for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
                iam.attach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])

    def access_entry(self) -> None:
        """The tags of our own access entry change and change back (its deletion would be seen: it takes effect late)."""
        eks, name = self._ground.sandbox.client("eks"), self._ground.site.eks_cluster
        for principal in eks.list_access_entries(clusterName=name)["accessEntries"]:
            arn = eks.describe_access_entry(clusterName=name, principalArn=principal)["accessEntry"]["accessEntryArn"]
            eks.tag_resource(resourceArn=arn, tags={"gremlin": "here"})
            eks.untag_resource(resourceArn=arn, tagKeys=["gremlin"])

    def file_in_a_bucket(self) -> None:
        """A lifecycle script is overwritten and restored."""
        s3, bucket = self._ground.sandbox.client("s3", REGION), self._ground.site.names.scripts_bucket
        for item in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
            s3.put_object(Bucket=bucket, Key=item["Key"], Body=b"gremlin")
            s3.put_object(Bucket=bucket, Key=item["Key"], Body=body)

    def object_of_ours(self) -> None:
        """A label is put on one of our Kubernetes objects and taken off: its resourceVersion is two further."""
        found = self._one_of_ours()
        if found:
            kube, item = found
            where = (item["kind"], item["metadata"]["name"])
            for value in ("here", None):
                kube.patch(*where, {"metadata": {"labels": {"gremlin": value}}}, namespace=item["metadata"].get("namespace"))

    def object_made_anew(self) -> None:
        """One of our objects is deleted and made again by the same manager: another uid, nothing else."""
        found = self._one_of_ours(("ServiceAccount", "ConfigMap", "ClusterRole"))
        if found:
            kube, item = found
            fresh = json.loads(json.dumps(item))
            for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"):
                fresh["metadata"].pop(name, None)
            kube.delete(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))
            kube.apply(fresh)

    def _one_of_ours(self, kinds: tuple[str, ...] = _KINDS) -> tuple[Any, dict[str, Any]] | None:
        kube = self._ground.kube()
        if kube is None:
            return None
        items = [
            i
            for kind in kinds
            for i in kube.list(kind)
            if any(e["manager"] == FIELD_MANAGER for e in i["metadata"].get("managedFields", ()))
        ]
        return (kube, self._chance.choice(items)) if items else None
