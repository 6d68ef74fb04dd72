"""What the operator does in AWS, with its execution role: load balancer, certificate, SageMaker model, configuration and endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...world.seams import InferenceWorld
from ..loops.objects import Object, meta, name_of, namespace_of, owner_reference, spec_of, stamp

if TYPE_CHECKING:
    from ..aws_view import AwsView
    from ..cluster import Cluster

_IN_SERVICE = "CreationCompleted"


class Aws:
    """Asks the AWS side, outside of the worker's lock. On a bench without it nothing is registered and no storage is tiered."""

    def __init__(self, cluster: Cluster, view: AwsView) -> None:
        self._cluster, self._view = cluster, view

    @property
    def _world(self) -> InferenceWorld | None:
        return self._cluster.aws if isinstance(self._cluster.aws, InferenceWorld) else None

    @property
    def _configuration(self) -> dict[str, Any]:
        addon = (self._view.addons or {}).get("amazon-sagemaker-hyperpod-inference")
        return addon.configuration if addon is not None else {}

    async def tiered_storage(self) -> bool:
        """Whether the HyperPod cluster has tiered storage."""
        return bool(self._world and await self._cluster.ask_aws(self._world.tiered_storage, self._cluster.arn))

    async def balancer(self, name: str, scheme: str) -> tuple[str, str]:
        """(host name, why not)."""
        try:
            host = await self._cluster.ask_aws(self._cluster.aws.create_load_balancer, self._cluster.arn, f"ingress/{name}", scheme)
        except Exception as error:  # noqa: BLE001  whatever AWS refuses becomes the event a person reads
            return "", str(error)
        return host, ""

    async def remove_balancer(self, name: str) -> None:
        """One that is not there is fine."""
        await self._cluster.ask_aws(self._cluster.aws.delete_load_balancer, self._cluster.arn, f"ingress/{name}")

    def registration(self, endpoint: Object, name: str, host: str) -> Object:
        """The SageMakerEndpointRegistration of an endpoint."""
        spec = spec_of(endpoint)
        role = self._configuration.get("executionRoleArn") or f"arn:{self._partition}:iam::{'0' * 12}:role/none"
        details = {
            "arn": self._cluster.arn,
            "name": self._cluster.name,
            "clusterSecurityGroupId": "",
            "securityGroupIds": [],
            "subnetIds": [],
            "vpcId": "",
        }
        wanted = {
            "name": name,
            "eksClusterDetails": details,
            "executionRole": role,
            "imageUri": (spec.get("worker") or {}).get("image") or "jumpstart",
            "instanceType": spec.get("instanceType") or (spec.get("server") or {}).get("instanceType") or "",
            "invocationEndpoint": spec.get("invocationEndpoint", "invocations"),
            "loadBalancerHostName": host,
            "restApiId": meta(endpoint)["uid"][:10],
        }
        metadata = {"name": name.lower(), "namespace": namespace_of(endpoint), "ownerReferences": [owner_reference(endpoint)]}
        kind = "SageMakerEndpointRegistration"
        return {"apiVersion": "inference.sagemaker.aws.amazon.com/v1", "kind": kind, "metadata": metadata, "spec": wanted}

    async def register(self, endpoint: Object, name: str) -> Object:
        """The state of the SageMaker endpoint, which is made when it is not there."""
        if self._world is None:
            return {"state": _IN_SERVICE}
        role = str(self._configuration.get("executionRoleArn") or "")
        about = {
            "namespace": namespace_of(endpoint),
            "endpoint": name_of(endpoint),
            "path": spec_of(endpoint).get("invocationEndpoint", ""),
        }
        found: Object = await self._cluster.ask_aws(self._world.register_endpoint, self._cluster.arn, name, role, about)
        return found

    async def deregister(self, name: str) -> None:
        """Remove the SageMaker endpoint; one that is not there is fine."""
        if self._world is not None:
            await self._cluster.ask_aws(self._world.deregister_endpoint, self._cluster.arn, name)

    @property
    def _partition(self) -> str:
        return self._cluster.arn.split(":")[1]

    def certificate(self, endpoint: Object, now: float, seconds: float) -> Object:
        """The certificate of the load balancer: the user's own, or one that the operator has made and put into the bucket."""
        spec, name = spec_of(endpoint), name_of(endpoint)
        own = (spec.get("tlsConfig") or {}).get("customCertificateConfig")
        account = self._cluster.arn.split(":")[4]
        arn = f"arn:{self._partition}:acm:{self._cluster.region}:{account}:certificate/{meta(endpoint)['uid']}"
        found: Object = {
            "certificateARN": own["acmArn"] if own else arn,
            "certificateHealth": "Valid",
            "certificateName": f"{name}-certificate",
            "lastCertExpiryTime": stamp(now + seconds),
        }
        if own:
            return {**found, "certificateDomainNames": [own["domainName"]]}
        bucket = str((spec.get("tlsConfig") or {}).get("tlsCertificateOutputS3Uri") or "").removeprefix("s3://").partition("/")[0]
        bucket = bucket or str(self._configuration.get("tlsCertificateS3Bucket") or "")
        keys = [f"certificates/{namespace_of(endpoint)}/{name}.pem"] if bucket else []
        return {
            **found,
            "issuerName": f"{name}-issuer",
            "importedCertificates": [arn],
            "certificateDomainNames": [f"{name}.{namespace_of(endpoint)}.svc"],
            "tlsCertificateOutputS3Bucket": bucket,
            "tlsCertificateS3Keys": keys,
        }
