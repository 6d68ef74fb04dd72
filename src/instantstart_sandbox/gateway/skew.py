"""AWS refuses what was signed by a clock that is more than five minutes off, each service in its own words.

Facts: "Signature expired" and "Signature not yet current" of the JSON and Query services; EC2's RequestExpired; S3's
RequestTimeTooSkewed (Amazon S3 API reference, "Error responses"; EC2 API reference, "Error codes").
"""

from __future__ import annotations

import datetime as dt
import re
import time
from typing import Final

from instantstart_sandbox.gateway.errors import AwsError

SKEW_SECONDS: Final = 300.0
_FORM: Final = "%Y%m%dT%H%M%SZ"
_STAMP: Final = re.compile(r"\d{8}T\d{6}Z")
_QUERY_SERVICES: Final = ("iam", "sts", "cloudformation", "elb", "elbv2", "autoscaling")


def check(service: str, stamp: str, client_skew: float, virtual_now: float) -> None:
    """Refuse a request signed at ``stamp`` (``X-Amz-Date``; without one nothing is said).

    AWS's clock is the wall's plus ``client_skew`` seconds: clients sign with the wall's time, whatever the virtual time is. Some
    (SDKs for Go and JavaScript) go by the Date of AWS's answers, which is virtual: they are right too.
    """
    if not _STAMP.fullmatch(stamp):
        return
    now, signed = time.time() + client_skew, dt.datetime.strptime(stamp, _FORM).replace(tzinfo=dt.UTC).timestamp()
    if min(abs(now - signed), abs(virtual_now + client_skew - signed)) <= SKEW_SECONDS:
        return
    if service == "s3":
        raise AwsError("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", 403)
    if service == "ec2":
        raise AwsError("RequestExpired", "Request has expired.", 400)
    late = now > signed
    edge = now - SKEW_SECONDS if late else now + SKEW_SECONDS
    shown, bound = _shown(now), _shown(edge)
    told = f"Signature expired: {stamp} is now earlier than {bound} ({shown} - 5 min.)"
    if not late:
        told = f"Signature not yet current: {stamp} is still later than {bound} ({shown} + 5 min.)"
    raise AwsError("SignatureDoesNotMatch" if service in _QUERY_SERVICES else "InvalidSignatureException", told, 403)


def _shown(moment: float) -> str:
    return dt.datetime.fromtimestamp(moment, dt.UTC).strftime(_FORM)
