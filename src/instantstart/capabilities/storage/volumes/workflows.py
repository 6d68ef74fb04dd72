"""What can be done with volumes: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.storage.volumes import removal, specs, stages
from instantstart.operations.declare import Stage, Workflow

ADD_S3_VOLUME = Workflow(
    "s3_volume.add",
    "Mount an S3 bucket",
    specs.S3Target,
    specs.subject,
    (
        Stage("check", stages.check_s3, "Check driver, bucket and name", within=minutes(15), typical=3),
        Stage("bucket", stages.make_bucket, "Find or make the bucket", within=minutes(30), typical=5),
        Stage("bucket_access", stages.allow_bucket, "Let the S3 driver reach the bucket", within=minutes(30), typical=3),
        Stage("claim", stages.make_s3_claim, "Make the volume and bind its claim", within=minutes(30), typical=10),
    ),
)
ADD_FSX_VOLUME = Workflow(
    "fsx_volume.add",
    "Mount an FSx for Lustre file system",
    specs.FsxTarget,
    specs.subject,
    (
        Stage("check", stages.check_fsx, "Check driver, file system, ports and zone", within=minutes(15), typical=3),
        Stage("file_system", stages.make_file_system, "Find or make the file system", within=minutes(60), typical=600),
        Stage("claim", stages.make_fsx_claim, "Make the volume and bind its claim", within=minutes(30), typical=10),
    ),
)
REMOVE_VOLUME = Workflow(
    "volume.remove",
    "Remove a volume",
    specs.RemoveTarget,
    specs.subject,
    (
        Stage("survey", removal.survey, "Write down what there is", within=minutes(15), typical=3),
        Stage("claim", removal.remove_claim, "Remove the claim and its volume", within=minutes(30), typical=10),
        Stage("file_system", removal.remove_file_system, "Delete the file system, where asked", within=minutes(60), typical=120),
    ),
    destructive=True,
)

WORKFLOWS = (ADD_S3_VOLUME, ADD_FSX_VOLUME, REMOVE_VOLUME)
