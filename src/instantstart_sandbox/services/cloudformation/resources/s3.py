"""AWS::S3::Bucket and its policy."""

from __future__ import annotations

import json
from typing import Any

from moto.backends import get_backend

from instantstart_sandbox.services.arns import dns_suffix
from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request, is_true
from instantstart_sandbox.services.cloudformation.resources.shapes import shape

_BLOCKS = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")


class Bucket(Handler):
    """AWS::S3::Bucket. A bucket that exists already, even the account's own, is not adopted."""

    type = "AWS::S3::Bucket"
    name_property = "BucketName"
    shape = shape(
        "BucketEncryption BucketName! LifecycleConfiguration OwnershipControls PublicAccessBlockConfiguration Tags[] "
        "VersioningConfiguration",
        unsupported="AbacStatus AccelerateConfiguration AccessControl AnalyticsConfigurations BucketNamePrefix BucketNamespace "
        "CorsConfiguration "
        "IntelligentTieringConfigurations InventoryConfigurations LoggingConfiguration MetadataConfiguration "
        "MetadataTableConfiguration MetricsConfigurations NotificationConfiguration ObjectLockConfiguration ObjectLockEnabled "
        "ReplicationConfiguration WebsiteConfiguration",
        BucketEncryption=shape(
            "ServerSideEncryptionConfiguration*[]",
            ServerSideEncryptionConfiguration=shape(
                "BucketKeyEnabled ServerSideEncryptionByDefault",
                unsupported="BlockedEncryptionTypes",
                ServerSideEncryptionByDefault="KMSMasterKeyID SSEAlgorithm*",
            ),
        ),
        LifecycleConfiguration=shape(
            "Rules*[]",
            unsupported="TransitionDefaultMinimumObjectSize",
            Rules=shape(
                "AbortIncompleteMultipartUpload ExpirationInDays Id NoncurrentVersionExpiration Prefix Status*",
                unsupported="ExpirationDate ExpiredObjectDeleteMarker NoncurrentVersionExpirationInDays NoncurrentVersionTransition "
                "NoncurrentVersionTransitions ObjectSizeGreaterThan ObjectSizeLessThan TagFilters Transition Transitions",
                AbortIncompleteMultipartUpload="DaysAfterInitiation*",
                NoncurrentVersionExpiration="NoncurrentDays* NewerNoncurrentVersions",
            ),
        ),
        OwnershipControls=shape("Rules*[]", Rules="ObjectOwnership"),
        PublicAccessBlockConfiguration=" ".join(_BLOCKS),
        VersioningConfiguration="Status*",
    )
    seconds = 21.0

    def create(self, request: Request) -> None:
        """CreateBucket in the stack's region, then its settings."""
        name = request.get("BucketName") or request.name(63, lower=True)
        if self._owned(request, name):
            raise Failure(f"{name} already exists (Service: S3, Status Code: 0, Request ID: null)", "AlreadyExists")
        region = request.stack["region"]
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        request.call("s3", "CreateBucket", Bucket=name, **where)
        request.physical = name
        self._settings(request, {})

    def _owned(self, request: Request, name: str) -> bool:
        """Whether the account has the bucket, of which CreateBucket says nothing in us-east-1. The backend is asked: it needs no right."""
        return name in self._backend(request).buckets

    def _backend(self, request: Request) -> Any:
        return get_backend("s3")[request.stack["account"]][request.partition]

    def _settings(self, request: Request, old: dict[str, Any]) -> None:
        bucket = {"Bucket": request.physical}
        block, versions = request.get("PublicAccessBlockConfiguration"), request.get("VersioningConfiguration")
        if block is not None and block != old.get("PublicAccessBlockConfiguration"):
            flags = {key: is_true(block.get(key)) for key in _BLOCKS}
            request.call("s3", "PutPublicAccessBlock", **bucket, PublicAccessBlockConfiguration=flags)
        elif block is None and old.get("PublicAccessBlockConfiguration"):
            request.call("s3", "DeletePublicAccessBlock", **bucket)
        if versions != old.get("VersioningConfiguration"):
            status = (versions or {"Status": "Suspended"})["Status"]
            request.call("s3", "PutBucketVersioning", **bucket, VersioningConfiguration={"Status": status})
        self._encryption(request, old)
        self._lifecycle(request, old)
        owners = request.get("OwnershipControls")
        if owners and owners != old.get("OwnershipControls"):
            request.call("s3", "PutBucketOwnershipControls", **bucket, OwnershipControls=owners)
        self._tag(request)

    def _encryption(self, request: Request, old: dict[str, Any]) -> None:
        wanted = request.get("BucketEncryption")
        if wanted and wanted != old.get("BucketEncryption"):
            rules = [
                {
                    "ApplyServerSideEncryptionByDefault": rule.get("ServerSideEncryptionByDefault", {}),
                    **({"BucketKeyEnabled": is_true(rule["BucketKeyEnabled"])} if "BucketKeyEnabled" in rule else {}),
                }
                for rule in wanted["ServerSideEncryptionConfiguration"]
            ]
            request.call("s3", "PutBucketEncryption", Bucket=request.physical, ServerSideEncryptionConfiguration={"Rules": rules})

    def _lifecycle(self, request: Request, old: dict[str, Any]) -> None:
        wanted = request.get("LifecycleConfiguration")
        if wanted and wanted != old.get("LifecycleConfiguration"):
            rules = [_rule(number, rule) for number, rule in enumerate(wanted["Rules"])]
            request.call("s3", "PutBucketLifecycleConfiguration", Bucket=request.physical, LifecycleConfiguration={"Rules": rules})
        elif not wanted and old.get("LifecycleConfiguration"):
            request.call("s3", "DeleteBucketLifecycle", Bucket=request.physical)

    def _tag(self, request: Request) -> None:
        """S3 refuses ``aws:`` tags from anybody but AWS, and moto has no side door: the three go into its backend."""
        mine = [t for t in request.tag_list() if not t["Key"].startswith("aws:")]
        request.call("s3", "PutBucketTagging", Bucket=request.physical, Tagging={"TagSet": mine})
        self._backend(request).put_bucket_tagging(request.physical, request.tags())

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """The settings that differ."""
        self._settings(request, old)

    def delete(self, request: Request) -> None:
        """DeleteBucket; a bucket with objects makes it fail, as on AWS."""
        try:
            request.call("s3", "DeleteBucket", Bucket=request.physical)
        except Failure as failure:
            if failure.code == "ResourceConflict":
                raise Failure(failure.message, "GeneralServiceException") from failure
            raise

    def attributes(self, request: Request) -> dict[str, Any]:
        """The ARN and the host names."""
        name, region, suffix = request.physical, request.stack["region"], dns_suffix(request.partition)
        return {
            "Arn": f"arn:{request.partition}:s3:::{name}",
            "DomainName": f"{name}.s3.{suffix}",
            "RegionalDomainName": f"{name}.s3.{region}.{suffix}",
            "DualStackDomainName": f"{name}.s3.dualstack.{region}.{suffix}",
            "WebsiteURL": f"http://{name}.s3-website-{region}.{suffix}",
        }


def _rule(number: int, rule: dict[str, Any]) -> dict[str, Any]:
    """A lifecycle rule in the API's words, which has the days of an expiration one level deeper and wants a filter."""
    made: dict[str, Any] = {"ID": rule.get("Id", f"rule-{number}"), "Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    if "ExpirationInDays" in rule:
        made["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    for name in ("AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration"):
        if name in rule:
            made[name] = {key: int(value) for key, value in rule[name].items()}
    return made


class BucketPolicy(Handler):
    """AWS::S3::BucketPolicy. Its physical id is the bucket's name."""

    type = "AWS::S3::BucketPolicy"
    shape = shape("Bucket*! PolicyDocument*")

    def create(self, request: Request) -> None:
        """PutBucketPolicy."""
        policy = request.get("PolicyDocument")
        request.call(
            "s3", "PutBucketPolicy", Bucket=request.get("Bucket"), Policy=policy if isinstance(policy, str) else json.dumps(policy)
        )
        request.physical = request.get("Bucket")

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """PutBucketPolicy again."""
        self.create(request)

    def delete(self, request: Request) -> None:
        """DeleteBucketPolicy."""
        request.call("s3", "DeleteBucketPolicy", Bucket=request.physical)


HANDLERS: tuple[type[Handler], ...] = (Bucket, BucketPolicy)
