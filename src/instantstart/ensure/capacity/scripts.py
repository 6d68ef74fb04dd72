"""The lifecycle scripts of HyperPod nodes: ours, shipped here, put into the cluster's bucket, verified before use.

HyperPod runs ``on_create.sh`` once on each new node. On EKS the node's software is HyperPod's own, so ours only keeps a log and
mounts nothing; a person may replace it in the bucket.
"""

from __future__ import annotations

ENTRY = "on_create.sh"
PREFIX = "lifecycle/"

_ON_CREATE = b"""#!/bin/bash
# Runs once on a new HyperPod node, as root. A non-zero status fails the node.
set -euo pipefail
log=/var/log/provision/on_create.log
mkdir -p "$(dirname "$log")"
exec > >(tee -a "$log") 2>&1
echo "$(date -u +%FT%TZ) lifecycle: begin on $(hostname)"
# Big models mean big container images: keep them on the extra volume when there is one.
if mountpoint -q /opt/sagemaker; then
  install -d -m 0711 /opt/sagemaker/containerd
  echo "$(date -u +%FT%TZ) lifecycle: /opt/sagemaker is mounted"
fi
echo "$(date -u +%FT%TZ) lifecycle: end"
"""


def contents() -> dict[str, bytes]:
    """Every object of the script set by its key."""
    return {PREFIX + ENTRY: _ON_CREATE}


def uri(bucket: str) -> str:
    """What LifeCycleConfig.SourceS3Uri takes."""
    return f"s3://{bucket}/{PREFIX.rstrip('/')}"
