"""Service Quotas is long and finite, and capacity runs out."""

from __future__ import annotations

from typing import Any


def test_sagemaker_has_more_quotas_than_fit_on_fifteen_pages(sandbox: Any) -> None:
    quotas = sandbox.client("service-quotas")
    pages = list(quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker"))
    names = {q["QuotaName"]: q for page in pages for q in page["Quotas"]}
    assert len(names) > 1500
    assert max(len(page["Quotas"]) for page in pages) <= 100
    assert names["ml.g5.xlarge for cluster usage"]["Value"] == 8.0
    assert names["ml.g5.xlarge for spot cluster usage"]["Value"] == 4.0
    assert names["ml.p4d.24xlarge for cluster usage"]["Value"] == 0.0
    assert "Total number of instances allowed across SageMaker HyperPod clusters" in names
    code = names["ml.g5.xlarge for cluster usage"]["QuotaCode"]
    assert quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode=code)["Quota"]["QuotaName"] == "ml.g5.xlarge for cluster usage"


def test_the_vpc_quotas_have_their_codes(sandbox: Any, refused: Any) -> None:
    quotas = sandbox.client("service-quotas")
    values = {("vpc", "L-F678F1CE"): 5.0, ("vpc", "L-DF5E4CA3"): 5000.0, ("ec2", "L-0263D0A3"): 5.0}
    for (service, code), value in values.items():
        assert quotas.get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]["Value"] == value
    assert refused(quotas.get_service_quota, ServiceCode="vpc", QuotaCode="L-00000000") == "NoSuchResourceException"


def test_an_increase_is_pending_then_a_case_then_in_effect_in_its_region(sandbox: Any, refused: Any) -> None:
    quotas = sandbox.client("service-quotas")
    ask = {"ServiceCode": "vpc", "QuotaCode": "L-F678F1CE", "DesiredValue": 8}
    request = quotas.request_service_quota_increase(**ask)["RequestedQuota"]
    assert request["Status"] == "PENDING"
    assert refused(quotas.request_service_quota_increase, **ask) == "ResourceAlreadyExistsException"
    sandbox.admin("warp", seconds=3700)
    assert quotas.get_requested_service_quota_change(RequestId=request["Id"])["RequestedQuota"]["Status"] == "CASE_OPENED"
    sandbox.admin("warp", seconds=3700)
    history = quotas.list_requested_service_quota_change_history_by_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")
    assert [r["Status"] for r in history["RequestedQuotas"]] == ["APPROVED"]
    assert quotas.get_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")["Quota"]["Value"] == 8.0
    elsewhere = sandbox.client("service-quotas", "eu-west-1").get_service_quota(ServiceCode="vpc", QuotaCode="L-F678F1CE")
    assert elsewhere["Quota"]["Value"] == 5.0


def test_capacity_is_taken_whole_or_not_at_all(sandbox: Any) -> None:
    sandbox.admin("capacity", instance_type="ml.p5.48xlarge", zone="us-west-2a", available=3)
    capacity = sandbox.world.capacity
    assert not capacity.take("ml.p5.48xlarge", "us-west-2a", 4)
    assert capacity.take("ml.p5.48xlarge", "us-west-2a", 2)
    assert not capacity.take("ml.p5.48xlarge", "us-west-2a", 2)
    capacity.give_back("ml.p5.48xlarge", "us-west-2a", 2)
    assert capacity.left("ml.p5.48xlarge", "us-west-2a") == 3
    assert capacity.take("ml.p5.48xlarge", "us-west-2b", 4)
