"""S3 buckets: checked before anything rests on them, made closed, emptied only when ours."""

from __future__ import annotations

import json
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait

_GLOBAL_REGION = "us-east-1"


def find_region(aws: Aws, bucket: str) -> str | None:
    """Where a bucket of ours lives, or None. Raises Denied for a bucket of another account."""
    try:
        told = aws.read("s3", "head_bucket", Bucket=bucket)
    except problems.NotFound:
        return None
    return str(told.get("BucketRegion") or aws.region)


def tags_of(aws: Aws, bucket: str) -> dict[str, str]:
    """The tags of a bucket; empty when it has none."""
    try:
        return {t["Key"]: t["Value"] for t in aws.read("s3", "get_bucket_tagging", Bucket=bucket)["TagSet"]}
    except problems.NotFound:
        return {}


def ensure_bucket(aws: Aws, bucket: str, tags: dict[str, str]) -> Outcome:
    """Move one step towards a private, encrypted, TLS-only bucket of ours. Done learns ``bucket``.

    A bucket of that name without our tag is a Conflict, except just made and not tagged yet: no tags at all, and empty.
    """
    try:
        region = find_region(aws, bucket)
    except problems.Denied as problem:
        aws.read("sts", "get_caller_identity")  # a HEAD is refused without words: expired credentials look like a stranger's bucket
        raise problems.Conflict(
            "bucket.not_ours", f"The bucket name {bucket} belongs to another account.", hint="Choose another tag."
        ) from problem
    if region is None:
        placed: dict[str, Any] = {} if aws.region == _GLOBAL_REGION else {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
        if aws.create("s3", "create_bucket", Bucket=bucket, **placed) is None:
            return Wait(2, f"The bucket {bucket} appeared a moment ago")
        return Wait(0, f"Made the bucket {bucket}")
    have = tags_of(aws, bucket)
    if not have and _is_empty(aws, bucket):
        aws.write("s3", "put_bucket_tagging", Bucket=bucket, Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in tags.items()]})
        return Wait(0, f"Tagged the bucket {bucket}")
    if have.get(names.CLUSTER_TAG) != tags[names.CLUSTER_TAG]:
        raise problems.Conflict(
            "bucket.not_ours", f"The bucket {bucket} exists and was not made for this cluster.", hint="Choose another tag."
        )
    return _close_step(aws, bucket) or Done({"bucket": bucket, "region": region})


def _is_empty(aws: Aws, bucket: str) -> bool:
    versions = aws.read("s3", "list_object_versions", Bucket=bucket, MaxKeys=1)
    return not versions.get("Versions") and not versions.get("DeleteMarkers")


def _close_step(aws: Aws, bucket: str) -> Wait | None:
    try:
        block = aws.read("s3", "get_public_access_block", Bucket=bucket)["PublicAccessBlockConfiguration"]
    except problems.NotFound:
        block = {}
    wanted = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)
    if block != wanted:
        rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
        aws.write("s3", "put_bucket_encryption", Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
        # last: it is what the next look sees, and S3 tells no difference between its own encryption and one that was asked for
        aws.write("s3", "put_public_access_block", Bucket=bucket, PublicAccessBlockConfiguration=wanted)
        return Wait(0, f"Closed {bucket} to the public and encrypted it")
    try:
        aws.read("s3", "get_bucket_policy", Bucket=bucket)
    except problems.NotFound:
        aws.write("s3", "put_bucket_policy", Bucket=bucket, Policy=json.dumps(_tls_only(aws.partition, bucket)))
        return Wait(0, f"Made {bucket} answer over TLS only")
    return None


def _tls_only(partition: str, bucket: str) -> dict[str, Any]:
    arn = f"arn:{partition}:s3:::{bucket}"
    deny = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {"Version": "2012-10-17", "Statement": [deny]}


def missing_objects(aws: Aws, bucket: str, contents: dict[str, bytes]) -> list[str]:
    """The keys that are absent or differ from the wanted content."""
    missing = []
    for key, body in contents.items():
        try:
            have = aws.read("s3", "get_object", Bucket=bucket, Key=key)["Body"].read()
        except problems.NotFound:
            have = None
        if have != body:
            missing.append(key)
    return missing


def put_object(aws: Aws, bucket: str, key: str, body: bytes) -> None:
    """Write one small object."""
    aws.write("s3", "put_object", Bucket=bucket, Key=key, Body=body)


def is_ours(aws: Aws, bucket: str, tag: str) -> bool:
    """Whether there is such a bucket and it carries our cluster tag; or was just made, and not tagged yet."""
    try:
        if find_region(aws, bucket) is None:
            return False
        have = tags_of(aws, bucket)
    except problems.Denied:
        return False
    return have.get(names.CLUSTER_TAG) == tag or (not have and _is_empty(aws, bucket))


def holds_data(aws: Aws, bucket: str, tag: str) -> bool:
    """Whether a bucket of ours has anything in it."""
    return is_ours(aws, bucket, tag) and not _is_empty(aws, bucket)


def remove_bucket(aws: Aws, bucket: str, tag: str) -> Wait | None:
    """Move one step towards the bucket, with all in it, being gone; None when it is, or is not ours."""
    if not is_ours(aws, bucket, tag):
        return None
    versions = aws.read("s3", "list_object_versions", Bucket=bucket, MaxKeys=1000)
    found = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in (*versions.get("Versions", ()), *versions.get("DeleteMarkers", ()))]
    if found:
        aws.write("s3", "delete_objects", Bucket=bucket, Delete={"Objects": found, "Quiet": True})
        return Wait(0, f"Emptying the bucket {bucket}")
    held = aws.remove("s3", "delete_bucket", Bucket=bucket)
    return Wait(5, f"{bucket} cannot be removed yet: {held}") if held else Wait(0, f"Removed the bucket {bucket}")
