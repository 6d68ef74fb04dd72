"""AWS::EKS types. A cluster is looked at through EKS itself until it is ACTIVE or FAILED; no time is assumed."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import shape


def camel(value: Any) -> Any:
    """A property value with its keys as the EKS API spells them: ``SubnetIds`` becomes ``subnetIds``."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


def service_tags(request: Request) -> dict[str, str]:
    """The tags of an EKS resource as a map."""
    return request.tags()


def retag(request: Request, arn: str, old: dict[str, Any]) -> None:
    """Bring the tags of an EKS resource to what the template says now."""
    removed = {t["Key"] for t in old.get("Tags") or []} - set(request.tags())
    if removed:
        request.call("eks", "UntagResource", resourceArn=arn, tagKeys=sorted(removed))
    request.call("eks", "TagResource", resourceArn=arn, tags=service_tags(request))


class Cluster(Handler):
    """AWS::EKS::Cluster."""

    type = "AWS::EKS::Cluster"
    name_property = "Name"
    shape = shape(
        "AccessConfig BootstrapSelfManagedAddons! DeletionProtection EncryptionConfig![] KubernetesNetworkConfig Logging Name! "
        "ResourcesVpcConfig* RoleArn*! Tags[] UpgradePolicy Version ZonalShiftConfig",
        unsupported="ActiveCertificateAuthorityId CertificateAuthority ComputeConfig ControlPlaneScalingConfig Force KubeApiServerConfig "
        "KubeControllerManagerConfig KubeSchedulerConfig OutpostConfig RemoteNetworkConfig RollbackConfig StorageConfig",
        AccessConfig="AuthenticationMode BootstrapClusterCreatorAdminPermissions!",
        EncryptionConfig=shape("Provider Resources[]", Provider="KeyArn"),
        KubernetesNetworkConfig=shape("ElasticLoadBalancing IpFamily! ServiceIpv4Cidr!", ElasticLoadBalancing="Enabled"),
        Logging=shape("ClusterLogging", ClusterLogging=shape("EnabledTypes[]", EnabledTypes="Type")),
        ResourcesVpcConfig=shape(
            "EndpointPrivateAccess EndpointPublicAccess PublicAccessCidrs[] SecurityGroupIds[] SubnetIds*[]",
            unsupported="ControlPlaneEgressMode",
        ),
        UpgradePolicy="SupportType",
        ZonalShiftConfig="Enabled",
    )
    seconds = 30.0
    poll_seconds = 30.0
    delete_seconds = 30.0
    #: creations of an hour and a half are reported, and CloudFormation waited for them
    stabilize_seconds = 10_800.0
    busy_seconds = 3600.0

    def create(self, request: Request) -> None:
        """CreateCluster."""
        plain = ("AccessConfig", "EncryptionConfig", "KubernetesNetworkConfig", "ResourcesVpcConfig", "RoleArn", "UpgradePolicy", "Version",
                 "BootstrapSelfManagedAddons", "DeletionProtection", "ZonalShiftConfig")  # fmt: skip
        asked: dict[str, Any] = camel(request.only(*plain))
        if "Logging" in request.properties:
            asked["logging"] = self._logging(request.properties)
        name = request.get("Name") or request.name(100)
        made = request.call(
            "eks", "CreateCluster", name=name, tags=service_tags(request), clientRequestToken=request.record["token"], **asked
        )
        request.physical = made["cluster"]["name"]

    def _logging(self, properties: dict[str, Any]) -> dict[str, Any]:
        every = ("api", "audit", "authenticator", "controllerManager", "scheduler")
        on = [t["Type"] for t in ((properties.get("Logging") or {}).get("ClusterLogging") or {}).get("EnabledTypes") or []]
        off = [t for t in every if t not in on]
        return {"clusterLogging": [{"types": types, "enabled": enabled} for types, enabled in ((on, True), (off, False)) if types]}

    def _describe(self, request: Request) -> dict[str, Any]:
        return dict(request.call("eks", "DescribeCluster", name=request.physical)["cluster"])

    def ready(self, request: Request) -> bool:
        """ACTIVE and no change left to ask for; FAILED ends the creation with the health issue of the cluster."""
        cluster = self._describe(request)
        if cluster["status"] == "FAILED":
            issues = "; ".join(i.get("message", i.get("code", "")) for i in (cluster.get("health") or {}).get("issues", []))
            raise Failure(
                f"Resource of type '{self.type}' with identifier '{request.physical}' did not stabilize. {issues}".strip(), "NotStabilized"
            )
        self._check_update(request)
        if cluster["status"] != "ACTIVE":
            return False
        return not self._next_change(request)

    def _check_update(self, request: Request) -> None:
        update_id = request.work.get("update")
        if not update_id:
            return
        update = request.call("eks", "DescribeUpdate", name=request.physical, updateId=update_id)["update"]
        if update["status"] in ("Failed", "Cancelled"):
            raise Failure("; ".join(e.get("errorMessage", "") for e in update.get("errors", [])) or "The update failed", "NotStabilized")

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """EKS takes one change at a time: the changes are listed here, and sent one by one as the cluster becomes ACTIVE again."""
        new, changes = request.properties, []
        if new.get("Version") != old.get("Version"):
            changes.append(["UpdateClusterVersion", {"version": new.get("Version")}])
        if new["ResourcesVpcConfig"] != old["ResourcesVpcConfig"]:
            changes.append(["UpdateClusterConfig", {"resourcesVpcConfig": camel(new["ResourcesVpcConfig"])}])
        if new.get("Logging") != old.get("Logging"):
            changes.append(["UpdateClusterConfig", {"logging": self._logging(new)}])
        mode = (new.get("AccessConfig") or {}).get("AuthenticationMode")
        if mode and mode != (old.get("AccessConfig") or {}).get("AuthenticationMode"):
            changes.append(["UpdateClusterConfig", {"accessConfig": {"authenticationMode": mode}}])
        for key in ("UpgradePolicy", "ZonalShiftConfig", "DeletionProtection"):
            if key in new and new[key] != old.get(key):
                changes.append(["UpdateClusterConfig", camel({key: new[key]})])
        retag(request, self._describe(request)["arn"], old)
        request.work["changes"] = changes
        self._next_change(request)

    def _next_change(self, request: Request) -> bool:
        changes = request.work.get("changes") or []
        if not changes:
            return False
        operation, arguments = changes.pop(0)
        made = request.call("eks", operation, name=request.physical, **arguments)
        request.work["update"] = made["update"]["id"]
        return True

    def delete(self, request: Request) -> None:
        """DeleteCluster; a cluster that is still being made or changed is waited for first."""
        if self._describe(request)["status"] in ("CREATING", "UPDATING"):
            raise Failure(f"The cluster {request.physical} is still being changed", "ResourceConflict", busy=True)
        request.call("eks", "DeleteCluster", name=request.physical)

    def gone(self, request: Request) -> bool:
        """Not there any more (DescribeCluster then fails with NotFound)."""
        self._describe(request)
        return False

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeCluster says."""
        cluster = self._describe(request)
        keys = [c.get("provider", {}).get("keyArn", "") for c in cluster.get("encryptionConfig") or []]
        return {
            "Arn": cluster["arn"],
            "Id": cluster.get("id", ""),
            "Endpoint": cluster.get("endpoint", ""),
            "CertificateAuthorityData": cluster.get("certificateAuthority", {}).get("data", ""),
            "ClusterSecurityGroupId": cluster.get("resourcesVpcConfig", {}).get("clusterSecurityGroupId", ""),
            "EncryptionConfigKeyArn": keys[0] if keys else "",
            "OpenIdConnectIssuerUrl": cluster.get("identity", {}).get("oidc", {}).get("issuer", ""),
            "KubernetesNetworkConfig.ServiceIpv6Cidr": cluster.get("kubernetesNetworkConfig", {}).get("serviceIpv6Cidr", ""),
        }


class Addon(Handler):
    """AWS::EKS::Addon. DEGRADED is waited for; what stays so does not stabilize."""

    type = "AWS::EKS::Addon"
    shape = shape(
        "AddonName*! AddonVersion ClusterName*! ConfigurationValues NamespaceConfig! PodIdentityAssociations[] PreserveOnDelete "
        "ResolveConflicts ServiceAccountRoleArn Tags[]",
        NamespaceConfig="Namespace*",
        PodIdentityAssociations="RoleArn* ServiceAccount*",
    )
    seconds = 10.0
    poll_seconds = 15.0

    def _id(self, request: Request) -> dict[str, str]:
        return {"clusterName": request.get("ClusterName"), "addonName": request.get("AddonName")}

    def create(self, request: Request) -> None:
        """CreateAddon."""
        plain = (
            "AddonVersion",
            "ConfigurationValues",
            "NamespaceConfig",
            "PodIdentityAssociations",
            "ResolveConflicts",
            "ServiceAccountRoleArn",
        )
        asked = camel(request.only(*plain))
        token = request.record["token"]
        request.call("eks", "CreateAddon", **self._id(request), **asked, tags=service_tags(request), clientRequestToken=token)
        request.physical = f"{request.get('ClusterName')}|{request.get('AddonName')}"

    def _describe(self, request: Request) -> dict[str, Any]:
        return dict(request.call("eks", "DescribeAddon", **self._id(request))["addon"])

    def ready(self, request: Request) -> bool:
        """Whether it is ACTIVE; CREATE_FAILED and UPDATE_FAILED end it."""
        addon = self._describe(request)
        if addon["status"] in ("CREATE_FAILED", "UPDATE_FAILED"):
            issues = "; ".join(i.get("message", "") for i in (addon.get("health") or {}).get("issues", []))
            raise Failure(f"Addon {request.get('AddonName')} is in status {addon['status']}: {issues}", "NotStabilized")
        return bool(addon["status"] == "ACTIVE")

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """UpdateAddon with what the template says now, and the tags."""
        plain = ("AddonVersion", "ConfigurationValues", "PodIdentityAssociations", "ResolveConflicts", "ServiceAccountRoleArn")
        retag(request, self._describe(request)["addonArn"], old)
        if any(request.get(key) != old.get(key) for key in plain):
            request.call("eks", "UpdateAddon", **self._id(request), **camel(request.only(*plain)))

    def delete(self, request: Request) -> None:
        """DeleteAddon; its Kubernetes objects stay when the template says PreserveOnDelete."""
        request.call("eks", "DeleteAddon", **self._id(request), preserve=request.get("PreserveOnDelete", False))

    def gone(self, request: Request) -> bool:
        """Not there any more (DescribeAddon then fails with NotFound)."""
        addon = self._describe(request)
        if addon["status"] == "DELETE_FAILED":
            raise Failure(f"Addon {request.get('AddonName')} is in status DELETE_FAILED", "NotStabilized")
        return False

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN."""
        return {"Arn": self._describe(request)["addonArn"]}


class AccessEntry(Handler):
    """AWS::EKS::AccessEntry with its access policies. Ref is ``principal|cluster``."""

    type = "AWS::EKS::AccessEntry"
    shape = shape(
        "AccessPolicies[] ClusterName*! KubernetesGroups[] PrincipalArn*! Tags[] Type! Username",
        AccessPolicies=shape("AccessScope* PolicyArn*", AccessScope=shape("Namespaces[] Type*")),
    )

    def _id(self, request: Request) -> dict[str, str]:
        return {"clusterName": request.get("ClusterName"), "principalArn": request.get("PrincipalArn")}

    def create(self, request: Request) -> None:
        """CreateAccessEntry, then its policies."""
        asked = camel(request.only("KubernetesGroups", "Type", "Username"))
        token = request.record["token"]
        request.call("eks", "CreateAccessEntry", **self._id(request), **asked, tags=service_tags(request), clientRequestToken=token)
        request.physical = f"{request.get('PrincipalArn')}|{request.get('ClusterName')}"
        self._policies(request, {})

    def _policies(self, request: Request, old: dict[str, Any]) -> None:
        before, after = old.get("AccessPolicies") or [], request.get("AccessPolicies") or []
        kept = {policy["PolicyArn"] for policy in after}
        for policy in before:
            if policy["PolicyArn"] not in kept:
                request.call("eks", "DisassociateAccessPolicy", **self._id(request), policyArn=policy["PolicyArn"])
        for policy in after:
            if policy not in before:
                request.call("eks", "AssociateAccessPolicy", **self._id(request), **camel(policy))

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Groups, user name, tags and policies."""
        if any(request.get(key) != old.get(key) for key in ("KubernetesGroups", "Username")):
            groups = request.get("KubernetesGroups") or []
            request.call("eks", "UpdateAccessEntry", **self._id(request), kubernetesGroups=groups, username=request.get("Username"))
        retag(request, self._arn(request), old)
        self._policies(request, old)

    def _arn(self, request: Request) -> str:
        return str(request.call("eks", "DescribeAccessEntry", **self._id(request))["accessEntry"]["accessEntryArn"])

    def delete(self, request: Request) -> None:
        """DeleteAccessEntry."""
        request.call("eks", "DeleteAccessEntry", **self._id(request))

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN."""
        return {"AccessEntryArn": self._arn(request)}


class PodIdentityAssociation(Handler):
    """AWS::EKS::PodIdentityAssociation. Ref is the association's ARN."""

    type = "AWS::EKS::PodIdentityAssociation"
    shape = shape("ClusterName*! DisableSessionTags Namespace*! RoleArn* ServiceAccount*! Tags[] TargetRoleArn", unsupported="Policy")

    def create(self, request: Request) -> None:
        """CreatePodIdentityAssociation."""
        asked = camel(request.only("ClusterName", "Namespace", "ServiceAccount", "RoleArn", "DisableSessionTags", "TargetRoleArn"))
        token = request.record["token"]
        made = request.call("eks", "CreatePodIdentityAssociation", **asked, tags=service_tags(request), clientRequestToken=token)
        association = made["association"]
        request.work["association"] = association["associationId"]
        request.physical = association["associationArn"]

    def _id(self, request: Request) -> dict[str, str]:
        return {"clusterName": request.get("ClusterName"), "associationId": request.work["association"]}

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """The role, and the tags."""
        asked = camel(request.only("RoleArn", "DisableSessionTags", "TargetRoleArn"))
        request.call("eks", "UpdatePodIdentityAssociation", **self._id(request), **asked)
        retag(request, request.physical, old)

    def delete(self, request: Request) -> None:
        """DeletePodIdentityAssociation."""
        request.call("eks", "DeletePodIdentityAssociation", **self._id(request))

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN and id."""
        found = request.call("eks", "DescribePodIdentityAssociation", **self._id(request))["association"]
        return {
            "AssociationArn": request.physical,
            "AssociationId": request.work["association"],
            "ExternalId": found.get("externalId", ""),
        }


HANDLERS: tuple[type[Handler], ...] = (Cluster, Addon, AccessEntry, PodIdentityAssociation)
