"""What may be asked of volumes. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Claim, Namespace, Target, Within, Zone

Throughput = Literal[125, 250, 500, 1000]


class VolumeAsk(Ask):
    """The questions about the claim."""

    claim_name: Claim
    namespace: Namespace = "default"


class AddS3Volume(VolumeAsk):
    """Ask for a bucket, or a folder of it, as a volume claim. What a volume shows cannot be changed later, only removed and made anew."""

    bucket: Annotated[str | None, Field(pattern=patterns.BUCKET, description="An existing S3 bucket; left out: the data bucket.")] = None
    prefix: Annotated[
        str, Field(max_length=512, pattern=patterns.FOLDER, description="Only this folder of the bucket; ends with a slash."), Within
    ] = ""
    read_only: Annotated[bool, Field(description="Mount without the right to write, overwrite or delete.")] = False
    allow_delete: Annotated[bool | None, Field(description="Pods may delete files. Left out: yes, unless read_only.")] = None
    allow_overwrite: Annotated[bool | None, Field(description="Pods may write a file anew. Left out: yes, unless read_only.")] = None
    uid: Annotated[int | None, Field(ge=0, le=2**31 - 1, description="User that files appear to belong to; left out: root.")] = None
    gid: Annotated[int | None, Field(ge=0, le=2**31 - 1, description="Group that files appear to belong to; left out: root.")] = None
    cache_gib: Annotated[int | None, Field(ge=1, le=10_000, description="Keep objects that were read on the node, up to so many GiB.")] = (
        None
    )


class AddFsxVolume(VolumeAsk):
    """Ask for an FSx for Lustre file system as a volume claim: one that is there, or a new one of size_gib (one of the two)."""

    file_system_id: Annotated[
        str | None,
        Field(pattern=patterns.FILE_SYSTEM_ID, description="An existing FSx for Lustre file system.", examples=["fs-0123456789abcdef0"]),
    ] = None
    size_gib: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="Make a new one of this size: 1200 or a multiple of 2400 GiB.")
    ] = None
    throughput: Annotated[Throughput, Field(description="Of a new one: MB/s for each TiB.")] = 250
    zone: Zone | None = None


class S3Target(Target, AddS3Volume):
    """s3_volume.add with its place."""


class FsxTarget(Target, AddFsxVolume):
    """fsx_volume.add with its place."""


class RemoveTarget(Target):
    """volume.remove with its place."""

    namespace: str
    claim_name: str
    #: a file system that was made for this claim goes, too, with its data
    delete_file_system: bool = False


def subject(target: S3Target | FsxTarget | RemoveTarget) -> str:
    """What an operation works on: one claim."""
    return f"volume/{target.region}/{target.tag}/{target.namespace}/{target.claim_name}"
