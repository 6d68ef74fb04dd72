"""Faults by pattern: throttling, server errors, slowness, replies lost after the act; and the journal of the wire."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, HTTPClientError

_TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


def test_a_throttled_call_is_refused_as_often_as_asked(sandbox: Any, refused: Any) -> None:
    sandbox.admin("fault", match="ec2:DescribeVpcs", code="RequestLimitExceeded", status=503, count=2)
    ec2 = sandbox.client("ec2")
    assert [refused(ec2.describe_vpcs), refused(ec2.describe_vpcs)] == ["RequestLimitExceeded"] * 2
    assert ec2.describe_vpcs()["Vpcs"]
    assert [rule["hits"] for rule in sandbox.admin("faults")] == [2]


def test_the_status_of_a_fault_is_on_the_wire_in_every_protocol(sandbox: Any) -> None:
    sandbox.admin("fault", match=".*:(List|Describe).*", code="InternalError", status=500, count=None)
    for service, call in (
        ("ec2", "describe_vpcs"),
        ("iam", "list_roles"),
        ("s3", "list_buckets"),
        ("service-quotas", "list_services"),
        ("eks", "list_clusters"),
    ):
        with pytest.raises(ClientError) as caught:
            getattr(sandbox.client(service), call)()
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert caught.value.response["Error"]["Code"] == "InternalError"


def test_a_lost_reply_comes_after_the_act(sandbox: Any) -> None:
    sandbox.admin("fault", match="ec2:CreateVpc", when="after")
    ec2 = sandbox.client("ec2")
    with pytest.raises(ConnectionClosedError):
        ec2.create_vpc(CidrBlock="10.7.0.0/16")
    assert "10.7.0.0/16" in [v["CidrBlock"] for v in ec2.describe_vpcs()["Vpcs"]]
    assert [e["error"] for e in sandbox.admin("journal") if e["operation"] == "CreateVpc"] == ["ReplyLost"]


def test_a_lost_reply_of_s3_is_lost_too(sandbox: Any) -> None:
    sandbox.admin("fault", match="s3:PutObject", when="after")
    s3 = sandbox.client("s3")
    s3.create_bucket(Bucket="weather-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    with pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket="weather-bucket", Key="k", Body=b"x")
    assert s3.get_object(Bucket="weather-bucket", Key="k")["Body"].read() == b"x"


def test_a_region_is_left_in_peace(sandbox: Any, refused: Any) -> None:
    sandbox.admin("fault", match="ec2:.*", code="InternalError", region="eu-west-1", count=None)
    assert sandbox.client("ec2").describe_vpcs()["Vpcs"]
    assert refused(sandbox.client("ec2", "eu-west-1").describe_vpcs) == "InternalError"


def test_a_probable_fault_strikes_the_same_calls_after_a_reset_of_the_rules(sandbox: Any) -> None:
    def struck() -> list[bool]:
        sandbox.world.faults.clear()
        sandbox.admin("fault", match="sts:.*", code="Throttling", probability=0.5, count=None)
        sts, found = sandbox.client("sts"), []
        for _ in range(12):
            try:
                sts.get_caller_identity()
                found.append(False)
            except ClientError:
                found.append(True)
        return found

    first = struck()
    assert 0 < sum(first) < 12
    assert struck() == first


def test_a_delay_is_in_virtual_seconds(sandbox: Any) -> None:
    sandbox.admin("rate", rate=1000)
    before = sandbox.admin("now")["now"]
    sandbox.admin("fault", match="sts:GetCallerIdentity", delay=300)
    started = time.monotonic()
    sandbox.client("sts").get_caller_identity()
    assert sandbox.admin("now")["now"] - before >= 300
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("bad", [{"match": "("}, {"code": "X"}, {"match": "x", "when": "never"}, {"match": "x", "colour": "red"}])
def test_a_rule_that_cannot_be_understood_is_refused(sandbox: Any, bad: Any) -> None:
    import urllib.error

    with pytest.raises(urllib.error.HTTPError) as caught:
        sandbox.admin("fault", **bad)
    assert caught.value.code == 400


def test_the_journal_says_who_did_what_with_which_token(sandbox: Any, vpc: Any) -> None:
    sandbox.client("ec2").create_route_table(VpcId=vpc["vpc"], ClientToken="mine")
    entry = [e for e in sandbox.admin("journal") if e["operation"] == "CreateRouteTable"][-1]
    assert entry["client_token"] == "mine"
    assert entry["principal"].endswith("user/instantstart-admin")
    assert entry["error"] == ""
    assert entry["request_id"]
    assert [e["seq"] for e in sandbox.world.journal.since(entry["seq"] - 1)] == [entry["seq"]]


def test_time_moves_by_warp_and_rate(sandbox: Any) -> None:
    before = sandbox.admin("now")["now"]
    sandbox.admin("warp", seconds=600)
    assert 600 <= sandbox.admin("now")["now"] - before < 660


def test_each_service_throttles_in_its_own_words(sandbox: Any, refused: Any) -> None:
    sandbox.admin("fault", match=".*", code="throttle", count=None)
    codes = {
        service: refused(getattr(sandbox.client(service), call))
        for service, call in (("ec2", "describe_vpcs"), ("s3", "list_buckets"), ("eks", "list_clusters"), ("iam", "list_roles"))
    }
    assert codes == {"ec2": "RequestLimitExceeded", "s3": "SlowDown", "eks": "ThrottlingException", "iam": "Throttling"}


def test_a_held_caller_waits_after_the_act_and_a_halted_one_before_it(sandbox: Any) -> None:
    reached = sandbox
    for when, acted in (("hold", True), ("halt", False)):
        rule = reached.admin("fault", match="iam:CreateRole", when=when)["id"]
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(reached.client("iam").create_role, RoleName=when, AssumeRolePolicyDocument=_TRUST)
            while not next(r for r in reached.admin("faults") if r["id"] == rule)["struck"]:
                time.sleep(0.01)
            until = time.monotonic() + 5
            while acted and time.monotonic() < until and when not in _roles(reached):
                time.sleep(0.01)
            assert (when in _roles(reached)) is acted
            assert not asked.done()
            reached.admin("faults/remove", id=rule)
            with pytest.raises(HTTPClientError):
                asked.result(timeout=10)
        assert (when in _roles(reached)) is acted, "what was halted never happens"
    assert reached.world.journal.crashes() == []


def test_a_rule_may_end_by_itself(sandbox: Any) -> None:
    reached = sandbox
    reached.admin("fault", match="iam:ListRoles", code="throttle", count=None, lasting=60.0)
    with pytest.raises(ClientError, match="Throttling"):
        _roles(reached)
    reached.admin("warp", seconds=61)
    _roles(reached)


@pytest.mark.parametrize("skew", [400.0, -400.0])
def test_a_clock_that_is_off_by_more_than_five_minutes_is_refused_in_each_services_words(sandbox: Any, skew: float) -> None:
    reached = sandbox
    reached.admin("settings", client_skew=skew)
    words = {"s3": "RequestTimeTooSkewed", "ec2": "RequestExpired", "iam": "SignatureDoesNotMatch", "eks": "InvalidSignatureException"}
    calls = {"s3": "list_buckets", "ec2": "describe_vpcs", "iam": "list_roles", "eks": "list_clusters"}
    for service, code in words.items():
        with pytest.raises(ClientError) as refused:
            getattr(reached.client(service), calls[service])()
        assert refused.value.response["Error"]["Code"] == code
    reached.admin("settings", client_skew=skew / 2)
    reached.client("eks").list_clusters()


def _roles(reached: Any) -> list[str]:
    return [role["RoleName"] for role in reached.client("iam").list_roles()["Roles"]]
