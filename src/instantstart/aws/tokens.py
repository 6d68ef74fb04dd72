"""The bearer token of an EKS cluster: a presigned STS GetCallerIdentity bound to the cluster's name.

The API server accepts it for 15 minutes from its signing; we sign anew well before that.
Source: EKS user guide, "Cluster authentication"; aws-iam-authenticator.
"""

from __future__ import annotations

import base64
from typing import Any

from botocore.signers import RequestSigner

from instantstart.aws.session import Aws

LIFE_SECONDS = 15 * 60
_EXPIRES_IN = 60
_HEADER = "x-k8s-aws-id"


def make(aws: Aws, cluster_name: str) -> str:
    """A fresh ``k8s-aws-v1.`` token. Raises Denied when there are no credentials."""
    client = aws.client("sts")
    session = aws._session
    signer = RequestSigner(client.meta.service_model.service_id, aws.region, "sts", "v4", session.get_credentials(), session.events)
    request: dict[str, Any] = {
        "method": "GET",
        "url": f"{client.meta.endpoint_url.rstrip('/')}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {_HEADER: cluster_name},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=aws.region, expires_in=_EXPIRES_IN, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
