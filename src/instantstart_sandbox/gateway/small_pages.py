"""Tiny pages on request (settings.largest_page): who does not read a list to its end is found out.

For every operation whose model has a page size and a token and that the sandbox answers itself or pages for moto (EC2).
IAM, S3 and the load balancers page as moto does.
"""

from __future__ import annotations

from instantstart_sandbox.gateway.wire import Call

_SIZES = ("MaxResults", "maxResults", "MaxItems")
_TOKENS = ("NextToken", "nextToken", "Marker")
#: moto reads these requests itself
_MOTOS = ("iam", "s3", "elb", "elbv2", "logs")


def shrink_page(call: Call, largest: int) -> None:
    """Ask for at most ``largest`` items, whatever the request says; a request for things by their ids is not paged, as on AWS."""
    shape = call.model.input_shape
    if shape is None or call.service in _MOTOS:
        return
    size = next((name for name in _SIZES if name in shape.members), None)
    by_id = call.service == "ec2" and any(name.endswith(("Ids", "Names")) and value for name, value in call.params.items())
    if size is not None and not by_id and any(token in shape.members for token in _TOKENS):
        call.params[size] = min(call.params.get(size) or largest, largest)
