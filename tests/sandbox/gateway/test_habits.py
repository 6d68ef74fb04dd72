"""What a caller does badly without an error is told by program: creations without a token of its own, lists not read to their end."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.sandbox.gateway.conftest import REGION, Reached


def caller(sandbox: Reached, agent: str) -> Any:
    """EC2 as a program of this name."""
    config = Config(user_agent_extra=agent, retries={"max_attempts": 0})
    keys = {"aws_access_key_id": sandbox.keys["access_key_id"], "aws_secret_access_key": sandbox.keys["secret_access_key"]}
    return boto3.client("ec2", region_name=REGION, endpoint_url=sandbox.endpoint, config=config, **keys)


def test_a_token_that_is_not_the_callers_own_is_told(sandbox: Reached) -> None:
    for agent, token in (("careless", {}), ("careful", {"ClientToken": "0" * 64})):
        with pytest.raises(ClientError):
            caller(sandbox, agent).create_nat_gateway(SubnetId="subnet-0123456789abcdef0", **token)
    with pytest.raises(ClientError):
        caller(sandbox, "careless").create_vpc_endpoint(VpcId="vpc-0123456789abcdef0", ServiceName="x")
    assert sandbox.admin("habits") == {
        "careless": {
            "tokens": {"ec2:CreateNatGateway": "a client token that the SDK invented", "ec2:CreateVpcEndpoint": "no client token"},
            "unread": {},
        }
    }


def test_a_list_that_is_not_read_to_its_end_is_told(sandbox: Reached) -> None:
    sandbox.admin("settings", largest_page=1, check_answers=True)
    caller(sandbox, "hasty").describe_subnets()
    assert len(list(caller(sandbox, "patient").get_paginator("describe_subnets").paginate())) > 1
    assert sandbox.admin("habits") == {"hasty": {"tokens": {}, "unread": {"ec2:DescribeSubnets": "a page was offered and never asked for"}}}


def test_it_is_forgotten_with_the_journal(sandbox: Reached) -> None:
    with pytest.raises(ClientError):
        caller(sandbox, "careless").create_nat_gateway(SubnetId="subnet-0123456789abcdef0")
    assert sandbox.world.journal.since()[-1]["agent"] == "careless"
    sandbox.world.journal.clear()
    assert sandbox.admin("habits") == {}
