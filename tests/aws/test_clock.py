"""A clock that is off is named as that, whatever a service calls it."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from instantstart.aws import errors
from instantstart.base import problems

EXPIRED = "Signature expired: 20261130T120000Z is now earlier than 20261130T121000Z (20261130T121500Z - 5 min.)"


@pytest.mark.parametrize(
    ("service", "code", "message"),
    [
        ("s3", "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
        ("ec2", "RequestExpired", "Request has expired."),
        ("iam", "SignatureDoesNotMatch", EXPIRED),
        ("eks", "InvalidSignatureException", EXPIRED),
        ("eks", "InvalidSignatureException", EXPIRED.replace("expired", "not yet current")),
    ],
)
def test_a_clock_that_is_off_is_a_persons_matter_and_says_so(service: str, code: str, message: str) -> None:
    told = errors.translate(ClientError({"Error": {"Code": code, "Message": message}}, "Any"), service, "any")
    assert isinstance(told, problems.Denied)
    assert told.code == "aws.clock_off"
    assert "clock" in (told.hint or "")


def test_a_wrong_signature_is_no_wrong_clock() -> None:
    error = ClientError(
        {"Error": {"Code": "SignatureDoesNotMatch", "Message": "The request signature we calculated does not match"}}, "Any"
    )
    assert errors.translate(error, "iam", "any").code == "aws.credentials_rejected"
