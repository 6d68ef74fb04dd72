"""AWS::EC2::Instance (what a management host needs) and AWS::EC2::LaunchTemplate."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from instantstart_sandbox.services.cloudformation.resources.ec2_network import TaggedEc2
from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.resources.shapes import shape


class Instance(TaggedEc2):
    """AWS::EC2::Instance, without launch templates, interfaces of its own, and placement."""

    type = "AWS::EC2::Instance"
    shape = shape(
        "BlockDeviceMappings[] EbsOptimized IamInstanceProfile ImageId! InstanceType KeyName! MetadataOptions Monitoring "
        "SecurityGroupIds[] SubnetId! Tags[] UserData",
        unsupported="AdditionalInfo Affinity AvailabilityZone CpuOptions CreditSpecification DisableApiTermination "
        "ElasticGpuSpecifications ElasticInferenceAccelerators "
        "EnclaveOptions HibernationOptions HostId HostResourceGroupArn InstanceInitiatedShutdownBehavior "
        "Ipv6AddressCount Ipv6Addresses KernelId LaunchTemplate LicenseSpecifications NetworkInterfaces PlacementGroupName "
        "PrivateDnsNameOptions PrivateIpAddress PropagateTagsToVolumeOnCreation RamdiskId SecurityGroups SourceDestCheck SsmAssociations "
        "Tenancy Volumes",
    )
    seconds = 30.0

    def create(self, request: Request) -> None:
        """RunInstances of one instance."""
        plain = ("BlockDeviceMappings", "EbsOptimized", "ImageId", "InstanceType", "KeyName", "MetadataOptions")
        asked = request.only(*plain, "SecurityGroupIds", "SubnetId")
        if "IamInstanceProfile" in request.properties:
            asked["IamInstanceProfile"] = {"Name": request.get("IamInstanceProfile")}
        if "Monitoring" in request.properties:
            asked["Monitoring"] = {"Enabled": request.get("Monitoring")}
        if user_data := request.get("UserData"):
            # a template gives it in base64 already; boto3 would encode it once more
            asked["UserData"] = _decoded(user_data)
        made = request.call(
            "ec2", "RunInstances", MinCount=1, MaxCount=1, TagSpecifications=request.tag_specifications("instance"), **asked
        )
        request.physical = made["Instances"][0]["InstanceId"]

    def _describe(self, request: Request) -> dict[str, Any]:
        found = request.call("ec2", "DescribeInstances", InstanceIds=[request.physical])["Reservations"]
        return dict(found[0]["Instances"][0])

    def ready(self, request: Request) -> bool:
        """Whether it is ``running``."""
        state = self._describe(request)["State"]["Name"]
        if state in ("shutting-down", "terminated"):
            raise Failure(f"Instance {request.physical} is in state {state}", "NotStabilized")
        return bool(state == "running")

    def modify(self, request: Request, old: dict[str, Any]) -> None:
        """Security groups; any other change of a running instance is refused, not ignored."""
        changed = {k for k in set(old) | set(request.properties) if old.get(k) != request.get(k)} - {"Tags", "SecurityGroupIds"}
        if changed:
            raise Failure(f"The sandbox cannot change {', '.join(sorted(changed))} of an instance", "NotUpdatable")
        if request.get("SecurityGroupIds") != old.get("SecurityGroupIds"):
            request.call("ec2", "ModifyInstanceAttribute", InstanceId=request.physical, Groups=request.get("SecurityGroupIds"))

    def delete(self, request: Request) -> None:
        """TerminateInstances."""
        request.call("ec2", "TerminateInstances", InstanceIds=[request.physical])

    def gone(self, request: Request) -> bool:
        """Whether it is ``terminated``."""
        return bool(self._describe(request)["State"]["Name"] == "terminated")

    def attributes(self, request: Request) -> dict[str, Any]:
        """As DescribeInstances says."""
        instance = self._describe(request)
        return {
            "InstanceId": request.physical,
            "AvailabilityZone": instance["Placement"]["AvailabilityZone"],
            "PrivateIp": instance.get("PrivateIpAddress", ""),
            "PublicIp": instance.get("PublicIpAddress", ""),
            "PrivateDnsName": instance.get("PrivateDnsName", ""),
            "PublicDnsName": instance.get("PublicDnsName", ""),
            "VpcId": instance.get("VpcId", ""),
        }


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Failure("Invalid BASE64 encoding of user data.", "InvalidRequest") from error


class LaunchTemplate(Handler):
    """AWS::EC2::LaunchTemplate; an update makes a new version, the default version stays."""

    type = "AWS::EC2::LaunchTemplate"
    name_property = "LaunchTemplateName"
    shape = shape("LaunchTemplateData* LaunchTemplateName! TagSpecifications[] VersionDescription")

    def create(self, request: Request) -> None:
        """CreateLaunchTemplate."""
        made = request.call(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName=request.get("LaunchTemplateName") or request.name(128),
            LaunchTemplateData=request.get("LaunchTemplateData"),
            VersionDescription=request.get("VersionDescription"),
            TagSpecifications=request.tag_specifications("launch-template"),
        )
        request.physical = made["LaunchTemplate"]["LaunchTemplateId"]

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """CreateLaunchTemplateVersion."""
        if request.get("LaunchTemplateData") != old.get("LaunchTemplateData"):
            request.call(
                "ec2",
                "CreateLaunchTemplateVersion",
                LaunchTemplateId=request.physical,
                LaunchTemplateData=request.get("LaunchTemplateData"),
                VersionDescription=request.get("VersionDescription"),
            )

    def delete(self, request: Request) -> None:
        """DeleteLaunchTemplate."""
        request.call("ec2", "DeleteLaunchTemplate", LaunchTemplateId=request.physical)

    def attributes(self, request: Request) -> dict[str, Any]:
        """The version numbers, as texts."""
        found = request.call("ec2", "DescribeLaunchTemplates", LaunchTemplateIds=[request.physical])["LaunchTemplates"][0]
        return {
            "LaunchTemplateId": request.physical,
            "DefaultVersionNumber": str(found["DefaultVersionNumber"]),
            "LatestVersionNumber": str(found["LatestVersionNumber"]),
        }


HANDLERS: tuple[type[Handler], ...] = (Instance, LaunchTemplate)
