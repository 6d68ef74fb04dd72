"""Requests are held against the service model, and so are the sandbox's own answers."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config

from instantstart_sandbox.gateway import validate, wire
from instantstart_sandbox.gateway.registry import Context


@pytest.fixture
def raw(sandbox: Any) -> Any:
    """Clients that send whatever they are told to."""
    import boto3

    def make(service: str) -> Any:
        return boto3.client(
            service,
            region_name="us-west-2",
            endpoint_url=sandbox.endpoint,
            aws_access_key_id=sandbox.keys["access_key_id"],
            aws_secret_access_key=sandbox.keys["secret_access_key"],
            config=Config(parameter_validation=False, retries={"max_attempts": 0}),
        )

    return make


def test_missing_enum_length_pattern_and_range_are_found_at_once() -> None:
    model = wire.service_model("sagemaker").operation_model("CreateCluster")
    params = {"InstanceGroups": [{"InstanceType": "ml.nothing", "InstanceGroupName": "-", "InstanceCount": -1}]}
    found = [why for _, why in validate._violations(params, model.input_shape, "")]
    assert any("Value null at 'ClusterName'" in why for why in found)
    assert any("enum value set" in why and "InstanceType" in why for why in found)
    assert any("regular expression" in why and "InstanceGroupName" in why for why in found)
    assert any("greater than or equal to 0" in why for why in found)


@pytest.mark.parametrize(
    ("service", "call", "params", "code"),
    [
        ("eks", "list_clusters", {"maxResults": 1000}, "InvalidParameterException"),
        ("ec2", "create_subnet", {"CidrBlock": "10.0.0.0/24"}, "MissingParameter"),
        ("iam", "create_role", {"RoleName": "x" * 65, "AssumeRolePolicyDocument": "{}"}, "ValidationError"),
        ("service-quotas", "list_service_quotas", {"ServiceCode": "sagemaker", "MaxResults": 101}, "ValidationException"),
    ],
)
def test_a_request_that_breaks_the_model_is_refused_on_the_server(
    raw: Any, refused: Any, service: Any, call: Any, params: Any, code: Any
) -> None:
    assert refused(getattr(raw(service), call), **params) == code


def test_an_answer_of_ours_that_breaks_the_model_is_a_crash_in_the_ledger(open_sandbox: Any) -> None:
    sandbox = open_sandbox(None)

    def wrong(ctx: Context, **params: Any) -> dict[str, Any]:
        return {"clusters": ["a"], "colour": "red"}

    sandbox.world.registry.op("eks", "ListClusters")(wrong)
    sandbox.client("eks").list_clusters()
    assert "'colour' is not a member" in sandbox.admin("crashes")[0]["error"]


def test_a_handler_that_fails_is_a_500_and_a_crash_in_the_ledger(open_sandbox: Any, refused: Any) -> None:
    sandbox = open_sandbox(None)

    def broken(ctx: Context, **params: Any) -> dict[str, Any]:
        raise KeyError("oh")

    sandbox.world.registry.op("eks", "ListClusters")(broken)
    assert refused(sandbox.client("eks").list_clusters) == "InternalFailure"
    assert [c["operation"] for c in sandbox.admin("crashes")] == ["ListClusters"]


def test_what_moto_lacks_altogether_is_unsupported_and_no_crash(sandbox: Any, refused: Any) -> None:
    assert refused(sandbox.client("pricing", "us-east-1").describe_services) == "NotImplementedInSandbox"
    assert sandbox.admin("unsupported") == {"pricing:DescribeServices": 1}


def test_moto_s_own_door_and_anonymous_calls_are_closed(sandbox: Any) -> None:
    import urllib.error
    import urllib.request

    for path in ("/moto-api/data.json", "/moto-api/reset", "/", "/some-bucket/key", "/latest/meta-data/"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(sandbox.endpoint + path, timeout=10)
        assert caught.value.code == 403


def test_a_web_page_may_not_steer_the_sandbox(sandbox: Any) -> None:
    import urllib.error
    import urllib.request

    request = urllib.request.Request(sandbox.endpoint + "/_sandbox/warp", data=b'{"seconds": 1}', headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    assert caught.value.code == 403


def test_a_timer_that_fails_is_a_crash_and_stops_nobody(open_sandbox: Any) -> None:
    sandbox = open_sandbox(None)
    ran: list[int] = []
    sandbox.world.clock.on("bad", lambda: ran.remove(7))
    sandbox.world.clock.on("good", lambda: ran.append(1))
    for event in ("bad", "good"):
        sandbox.world.clock.after(10, event)
    assert sandbox.admin("warp", seconds=20)["rate"] == 1.0
    assert ran == [1]
    assert [c["service"] for c in sandbox.admin("crashes")] == ["clock"]


def test_sixteen_clients_at_once_make_one_of_each(sandbox: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from botocore.exceptions import ClientError

    clients = [sandbox.client("ec2") for _ in range(16)]
    vpc = clients[0].create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]

    def make(client: Any) -> str:
        try:
            client.create_subnet(VpcId=vpc, CidrBlock="10.0.16.0/20")
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "made"

    with ThreadPoolExecutor(16) as pool:
        results = sorted(pool.map(make, clients))
    assert results == ["InvalidSubnet.Conflict"] * 15 + ["made"]
