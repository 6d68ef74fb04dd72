"""The AWS side as Kubernetes sees it: the implementation of ``world.seams.AwsWorld``.

Every method takes the world's lock, so it may be called from any thread; none waits for Kubernetes.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import fsx, inference, invocations, load_balancers, lookups
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.eks import catalog
from instantstart_sandbox.services.eks.addon_health import configuration_of
from instantstart_sandbox.services.eks.state import Record, clusters
from instantstart_sandbox.services.hyperpod import autoscaling
from instantstart_sandbox.services.hyperpod.health import act
from instantstart_sandbox.services.hyperpod.state import Cluster, Node, eks_arn, spot
from instantstart_sandbox.services.hyperpod.state import clusters as hyperpod_clusters
from instantstart_sandbox.world.seams import Addon, Autoscaler, Identity, Instance

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - the public prefix of every EKS token
#: sts does not tell the authenticator's emulation the session's name; it stands in for {{SessionName}}
_SESSION = "session"


class EmulatedAws:
    """``AwsWorld`` over the sandbox's own EKS, HyperPod, load balancers and S3."""

    def __init__(self, world: World) -> None:
        self._world = world

    def authenticate(self, cluster: str, token: str) -> Identity | None:
        """Verify a ``k8s-aws-v1.`` token and find its access entry. None: 401."""
        url = _url_of(token)
        with self._world.clock.lock:
            record = clusters(self._world).get(cluster)
            if url is None or record is None:
                return None
            principal = self._world.verify_presigned(url, record["view"]["name"])
            return self._identity(record, principal) if principal else None

    def _identity(self, record: Record, principal: str) -> Identity | None:
        now = self._world.clock.now()
        access = record["view"]["accessConfig"]
        if access["authenticationMode"] == "CONFIG_MAP":
            # the aws-auth map is not emulated: only the creator is known
            is_creator = principal == record["creator"] and access["bootstrapClusterCreatorAdminPermissions"]
            return Identity(principal, "kubernetes-admin", ("system:masters",)) if is_creator else None
        entry = record["entries"].get(principal)
        if entry is None or entry["effective"] > now:
            return None
        policies = tuple(
            (Arn.parse(p["policyArn"]).name, tuple(p["accessScope"]["namespaces"]))
            for p in entry["policies"].values()
            if p["effective"] <= now
        )
        username = entry["view"]["username"].replace("{{SessionName}}", _SESSION)
        return Identity(principal, username, tuple(entry["view"]["kubernetesGroups"]), policies)

    def instances(self, cluster: str) -> list[Instance]:
        """The instances of every HyperPod cluster on this EKS cluster, also those that have not joined yet."""
        with self._world.clock.lock:
            return [
                _instance(owner, node)
                for owner in hyperpod_clusters(self._world).values()
                if eks_arn(owner) == cluster
                for node in owner["nodes"].values()
                if node["id"]
            ]

    def addons(self, cluster: str) -> list[Addon]:
        """The add-ons, and the self-managed copies of vpc-cni, kube-proxy and coredns as ACTIVE ones."""
        with self._world.clock.lock:
            record = clusters(self._world).get(cluster)
            if record is None:
                return []
            found = {name: _self_managed(record, name) for name in record["self_managed"]}
            for name, addon in record["addons"].items():
                view = addon["view"]
                if name in found and not addon["installed"] and (view["status"] == "CREATE_FAILED" or addon["resolve"] != "OVERWRITE"):
                    continue
                overwrites = addon["installed"] or addon["resolve"] == "OVERWRITE"
                role = view.get("serviceAccountRoleArn") or ""
                found[name] = Addon(name, view["addonVersion"], view["status"], configuration_of(view), role, overwrites)
            return list(found.values())

    def associations(self, cluster: str) -> dict[tuple[str, str], float]:
        """Pod identity associations (``world.seams.IdentityWorld``)."""
        with self._world.clock.lock:
            record = clusters(self._world).get(cluster)
            held = record["associations"].values() if record else ()
            return {(a["view"]["namespace"], a["view"]["serviceAccount"]): a["effective"] for a in held}

    def request_node_action(self, cluster: str, instance_id: str, action: str) -> None:
        """Reboot or replace, as a node's health label asks. Only with NodeRecovery Automatic (facts A10); else nothing happens."""
        with self._world.clock.lock:
            for owner in hyperpod_clusters(self._world).values():
                for node in list(owner["nodes"].values()):
                    if eks_arn(owner) == cluster and node["id"] == instance_id and _recoverable(owner, node):
                        act(self._world, owner, node, action)

    def create_load_balancer(self, cluster: str, service: str, scheme: str) -> str:
        """Make the NLB of a Service; LookupError when the VPC has no subnet with the role tag for it."""
        with self._world.clock.lock:
            return load_balancers.create(self._world, cluster, service, scheme)

    def delete_load_balancer(self, cluster: str, service: str) -> None:
        """Remove the NLB of a Service, its interfaces and its security group."""
        with self._world.clock.lock:
            load_balancers.delete(self._world, cluster, service)

    def open_load_balancer(self, cluster: str, service: str, ranges: list[str], ports: list[int]) -> None:
        """Who may reach it (``world.seams.BalancerWorld``)."""
        with self._world.clock.lock:
            load_balancers.open_to(self._world, cluster, service, ranges, ports)

    def bucket_exists(self, bucket: str) -> bool:
        """Whether S3 has the bucket, in any region."""
        with self._world.clock.lock:
            return lookups.bucket_exists(self._world, self._world.region, bucket)

    def file_system_ready(self, dns_name: str) -> bool:
        """Whether an FSx file system of that name can be mounted."""
        with self._world.clock.lock:
            return fsx.ready(self._world, dns_name)

    def autoscaler(self, cluster: str) -> Autoscaler | None:
        """Managed Karpenter's view of the HyperPod cluster (``world.seams.ScalingWorld``)."""
        with self._world.clock.lock:
            return autoscaling.view(self._world, cluster)

    def add_node(self, cluster: str, wish: tuple[str, str, str], token: str) -> str:
        """One more node of (group, type, zone), as the cluster role asks for it."""
        with self._world.clock.lock:
            return autoscaling.add_node(self._world, cluster, wish, token)

    def delete_node(self, cluster: str, logical_id: str) -> None:
        """Give a node up, as the cluster role does it."""
        with self._world.clock.lock:
            autoscaling.delete_node(self._world, cluster, logical_id)

    def tiered_storage(self, cluster: str) -> bool:
        """Tiered storage of the HyperPod cluster (``world.seams.InferenceWorld``)."""
        with self._world.clock.lock:
            return inference.tiered_storage(self._world, cluster)

    def register_endpoint(self, cluster: str, name: str, role_arn: str, about: dict[str, str]) -> dict[str, Any]:
        """The SageMaker endpoint of the inference operator."""
        with self._world.clock.lock:
            return inference.register(self._world, cluster, name, role_arn, about)

    def metric(self, cluster: str, asked: dict[str, str], since: float) -> float | None:
        """A CloudWatch metric for KEDA."""
        with self._world.clock.lock:
            return invocations.metric(self._world, cluster, asked, since)

    def deregister_endpoint(self, cluster: str, name: str) -> None:
        """Remove it."""
        with self._world.clock.lock:
            inference.deregister(self._world, cluster, name)

    def bucket_client(self) -> Any:
        """An S3 client inside the sandbox (``world.seams.BucketWorld``)."""
        return self._world.client("s3")

    def tracking_url(self, arn: str) -> str | None:
        """Where the MLflow server or app of an ARN listens (``world.seams.TrackingWorld``)."""
        with self._world.clock.lock:
            plane = self._world.gateway.mlflow
            return plane.url_of(arn) if plane is not None else None


def _url_of(token: str) -> str | None:
    if not token.startswith(_TOKEN_PREFIX):
        return None
    text = token.removeprefix(_TOKEN_PREFIX)
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _recoverable(cluster: Cluster, node: Node) -> bool:
    return cluster["recovery"] == "Automatic" and cluster["status"] == "InService" and node["status"] in ("Running", "Failure")


def _self_managed(record: Record, name: str) -> Addon:
    return Addon(name, catalog.BY_NAME[name].default(record["view"]["version"]) or "", "ACTIVE")


def _instance(cluster: Cluster, node: Node) -> Instance:
    group: dict[str, Any] = cluster["groups"][node["group"]]
    return Instance(
        instance_id=node["id"],
        cluster_name=cluster["name"],
        group=node["group"],
        instance_type=node["type"],
        status=node["status"],
        zone=node["zone"],
        zone_id=node["zone_id"],
        private_ip=node["ip"],
        capacity_type="Spot" if spot(group) else "OnDemand",
        joined=node["joined"],
        health=node["health"],
        deep_health=node["deep"],
        labels=dict(node["labels"]),
        taints=tuple((t["Key"], t.get("Value", ""), t["Effect"]) for t in node["taints"]),
        boots=node.get("boots", 0),
    )
