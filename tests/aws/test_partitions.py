"""What the SDK knows of partitions, without a call."""

from __future__ import annotations

import boto3
import pytest

from instantstart.aws.session import Aws


@pytest.mark.parametrize(
    ("region", "partition", "metrics"),
    [("us-west-2", "aws", True), ("cn-north-1", "aws-cn", False), ("us-gov-west-1", "aws-us-gov", True)],
)
def test_a_service_is_in_a_partition_or_not(region: str, partition: str, metrics: bool) -> None:
    aws = Aws(boto3.Session(), region)
    assert (aws.partition, aws.is_in_partition("amp"), aws.is_in_partition("eks")) == (partition, metrics, True)
