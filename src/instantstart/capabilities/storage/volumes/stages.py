"""The stages that make volumes. Each looks first, acts at most once, and says what it learned."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome
from instantstart.capabilities.room import Room
from instantstart.capabilities.storage.volumes import rules, specs
from instantstart.ensure.findings import refusal
from instantstart.ensure.sites import site
from instantstart.ensure.storage import buckets, filesystems, s3_driver, volumes
from instantstart.operations.declare import Run


def check_s3(room: Room, run: Run) -> Outcome:
    """Everything that can be known before: driver, bucket, region, name."""
    where = site(room, run.spec)
    facts = rules.observe_s3(room, where, run.spec)
    refused = refusal(rules.findings(run.spec, facts, rules.S3_RULES))
    if refused:
        raise refused
    return Done({"bucket": facts.bucket, "region": facts.region}, already=True)


def make_bucket(room: Room, run: Run) -> Outcome:
    """The bucket: the given one, as it was found; or the data bucket of the cluster."""
    where, seen = site(room, run.spec), run.learned["check"]
    if run.spec.bucket is None:
        return buckets.ensure_bucket(where.aws, where.names.data_bucket, where.tags)
    return Done({"bucket": seen["bucket"], "region": seen["region"]}, already=True)


def allow_bucket(room: Room, run: Run) -> Outcome:
    """Let the S3 driver reach the bucket, beside those it already may."""
    return s3_driver.allow(site(room, run.spec), run.learned["bucket"]["bucket"])


def make_s3_claim(room: Room, run: Run) -> Outcome:
    """The volume and its claim, bound."""
    where, bucket = site(room, run.spec), run.learned["bucket"]
    return volumes.ensure(where.kube(room), s3_volume(run.spec, bucket["bucket"], bucket["region"]))


def s3_volume(spec: specs.AddS3Volume, bucket: str, region: str) -> volumes.S3Volume:
    """The volume that a request means."""
    return volumes.S3Volume(
        claim=spec.claim_name,
        namespace=spec.namespace,
        bucket=bucket,
        region=region,
        prefix=spec.prefix,
        read_only=spec.read_only,
        uid=spec.uid,
        gid=spec.gid,
        allow_delete=spec.allow_delete is not False,
        allow_overwrite=spec.allow_overwrite is not False,
        cache_gib=spec.cache_gib,
    )


def check_fsx(room: Room, run: Run) -> Outcome:
    """Everything that can be known before: driver, file system, VPC, ports, zone, size."""
    where = site(room, run.spec)
    facts = rules.observe_fsx(room, where, run.spec)
    made = filesystems.find_made(where.aws, _claim(run.spec), where.tag)
    if made is None:  # once it is asked for, what it takes from the limit is its own
        refused = refusal(rules.findings(run.spec, facts, rules.FSX_RULES))
        if refused:
            raise refused
    return Done({"subnet_id": facts.subnet_id, "security_group_ids": list(facts.place.group_ids)}, already=True)


def make_file_system(room: Room, run: Run) -> Outcome:
    """The file system: the given one, available; or a new one of this claim, made once."""
    where, spec, place = site(room, run.spec), run.spec, run.learned["check"]
    if spec.file_system_id is None:
        wanted = filesystems.Wanted(_claim(spec), spec.size_gib, spec.throughput, place["subnet_id"], tuple(place["security_group_ids"]))
        return filesystems.ensure(where.aws, wanted, where.tags, run.token("file-system"))
    found = filesystems.find(where.aws, spec.file_system_id)
    if found is None:
        raise problems.NotFound("fsx.not_found", f"The file system {spec.file_system_id} is gone.", hint="Choose another one.")
    if not found.ready:
        return filesystems.wait(found)
    return Done(filesystems.learned(found), already=True)


def make_fsx_claim(room: Room, run: Run) -> Outcome:
    """The volume and its claim, bound."""
    where, found = site(room, run.spec), run.learned["file_system"]
    return volumes.ensure(where.kube(room), volumes.LustreVolume(run.spec.claim_name, run.spec.namespace, **found))


def _claim(spec: specs.VolumeAsk) -> str:
    return f"{spec.namespace}/{spec.claim_name}"
