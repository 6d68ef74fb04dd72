"""Tools for volumes, buckets, images and downloads."""

from __future__ import annotations

from instantstart.faces.mcp.tool import PLANNED_WHERE, Area, begins, costs, ends, reads, removes

TOOLS = (
    reads("volume_list", "List volume claims: what each shows, whether bound, pods that use it.", Area.storage),
    reads("volume_get", "Show one volume claim: options, users, why it is not bound.", Area.storage),
    reads("file_system_list", "List FSx for Lustre file systems, those that fit first.", Area.storage),
    reads("object_list", "Browse a bucket: folders and objects with sizes, page by page.", Area.storage),
    reads("image_repository_list", "List ECR repositories.", Area.storage),
    reads("image_list", "List the images of an ECR repository, newest first.", Area.storage),
    reads("image_check", "Say whether an image is there ('unknown' in registries of others).", Area.storage),
    reads("download_list", "List downloads from the hub with progress.", Area.storage),
    reads("model_list", "List models and datasets that lie in mounted buckets.", Area.storage),
    begins("s3_volume_add", "Mount an S3 bucket, or a folder of it, as a volume claim.", Area.storage),
    costs(
        "fsx_volume_add",
        "Mount an FSx for Lustre file system: file_system_id, or size_gib for a new one.",
        Area.storage,
        told=PLANNED_WHERE,
    ),
    begins(
        "model_download", "Download a model or dataset of the hub into a volume, verified; asked again, only what is missing.", Area.storage
    ),
    ends("download_cancel", "End a download; complete files stay.", Area.storage),
    removes(
        "volume_remove",
        "Remove a volume claim; its data stays.",
        Area.storage,
    ),
)
