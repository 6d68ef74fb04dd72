"""Service Quotas: reads of the catalogue, and increases that a person at AWS grants after a while."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.paging import page
from instantstart_sandbox.world.quotas import SERVICE_NAMES, Quota, catalogue

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_OPEN = ("PENDING", "CASE_OPENED")
_BAD_TOKEN = "InvalidPaginationTokenException"  # noqa: S105 - an error code


def install(world: World) -> None:
    """Own the whole service."""
    world.registry.close("service-quotas")
    op = world.registry.op
    op("service-quotas", "ListServices")(list_services)
    op("service-quotas", "ListServiceQuotas")(list_service_quotas)
    op("service-quotas", "ListAWSDefaultServiceQuotas")(list_default_quotas)
    op("service-quotas", "GetServiceQuota")(get_service_quota)
    op("service-quotas", "GetAWSDefaultServiceQuota")(get_default_quota)
    op("service-quotas", "RequestServiceQuotaIncrease")(request_increase)
    op("service-quotas", "GetRequestedServiceQuotaChange")(get_requested_change)
    op("service-quotas", "ListRequestedServiceQuotaChangeHistory")(list_history)
    op("service-quotas", "ListRequestedServiceQuotaChangeHistoryByQuota")(list_history)
    world.clock.on("quotas.step", lambda request: _step(world, request))


def list_services(ctx: Context, NextToken: str | None = None, MaxResults: int | None = None) -> dict[str, Any]:
    """The services that have quotas here."""
    services = [{"ServiceCode": code, "ServiceName": name} for code, name in sorted(SERVICE_NAMES.items())]
    return _listed("Services", services, NextToken, MaxResults)


def list_service_quotas(
    ctx: Context,
    ServiceCode: str,
    NextToken: str | None = None,
    MaxResults: int | None = None,
    QuotaCode: str | None = None,
    QuotaAppliedAtLevel: str | None = None,
) -> dict[str, Any]:
    """The applied values."""
    quotas = [q for q in _service(ServiceCode).values() if QuotaCode in (None, q.code)]
    told = _listed("Quotas", quotas, NextToken, MaxResults)
    return {**told, "Quotas": [_view(ctx, q, applied=True) for q in told["Quotas"]]}


def list_default_quotas(ctx: Context, ServiceCode: str, NextToken: str | None = None, MaxResults: int | None = None) -> dict[str, Any]:
    """AWS's default values."""
    told = _listed("Quotas", list(_service(ServiceCode).values()), NextToken, MaxResults)
    return {**told, "Quotas": [_view(ctx, q, applied=False) for q in told["Quotas"]]}


def get_service_quota(ctx: Context, ServiceCode: str, QuotaCode: str, ContextId: str | None = None) -> dict[str, Any]:
    """One applied value."""
    return {"Quota": _view(ctx, _quota(ServiceCode, QuotaCode), applied=True)}


def get_default_quota(ctx: Context, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:
    """One default value."""
    return {"Quota": _view(ctx, _quota(ServiceCode, QuotaCode), applied=False)}


def request_increase(
    ctx: Context, ServiceCode: str, QuotaCode: str, DesiredValue: float, ContextId: str | None = None, SupportCaseAllowed: bool = True
) -> dict[str, Any]:
    """Ask for more: PENDING, then CASE_OPENED, then APPROVED and in effect."""
    quota = _quota(ServiceCode, QuotaCode)
    current = ctx.world.quotas.value(quota.service, quota.name, ctx.region)
    if DesiredValue <= current:
        raise AwsError("IllegalArgumentException", f"The desired value {DesiredValue} must be greater than the current value {current}.")
    requests = ctx.world.section("quota_requests")
    for other in requests.values():
        if other["region"] == ctx.region and other["view"]["QuotaCode"] == QuotaCode and other["view"]["Status"] in _OPEN:
            raise AwsError("ResourceAlreadyExistsException", "Only one open service quota increase request is allowed per quota.")
    request_id = uuid.uuid4().hex
    view = {
        "Id": request_id,
        "ServiceCode": quota.service,
        "ServiceName": SERVICE_NAMES[quota.service],
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "DesiredValue": float(DesiredValue),
        "Status": "PENDING",
        "Created": ctx.clock.utc(),
        "LastUpdated": ctx.clock.utc(),
        "Requester": f'{{"accountId":"{ctx.account}","callerArn":"{ctx.principal_arn}"}}',
        "QuotaArn": ctx.arn("servicequotas", f"{quota.service}/{quota.code}"),
        "GlobalQuota": False,
        "Unit": quota.unit,
    }
    requests[request_id] = {"region": ctx.region, "view": view}
    ctx.clock.after(ctx.world.settings.quota_request_seconds / 2, "quotas.step", request=request_id)
    return {"RequestedQuota": view}


def _step(world: World, request: str) -> None:
    record = world.section("quota_requests").get(request)
    if record is None:
        return
    view = record["view"]
    view["LastUpdated"] = world.clock.utc()
    if view["Status"] == "PENDING":
        view["Status"], view["CaseId"] = "CASE_OPENED", str(uuid.uuid4().int % 10**11)
        world.clock.after(world.settings.quota_request_seconds / 2, "quotas.step", request=request)
    else:
        view["Status"] = "APPROVED"
        world.quotas.set(view["ServiceCode"], view["QuotaName"], view["DesiredValue"], record["region"])
    world.changed()


def get_requested_change(ctx: Context, RequestId: str) -> dict[str, Any]:
    """How a request stands."""
    record = ctx.world.section("quota_requests").get(RequestId)
    if record is None or record["region"] != ctx.region:
        raise AwsError("NoSuchResourceException", "The request does not exist.")
    return {"RequestedQuota": record["view"]}


def list_history(ctx: Context, NextToken: str | None = None, MaxResults: int | None = None, **wanted: Any) -> dict[str, Any]:
    """The requests of this region, latest first; by service, quota and status where asked."""
    views = [r["view"] for r in ctx.world.section("quota_requests").values() if r["region"] == ctx.region]
    for name in ("ServiceCode", "QuotaCode", "Status"):
        if wanted.get(name):
            views = [view for view in views if view[name] == wanted[name]]
    return _listed("RequestedQuotas", sorted(views, key=lambda v: v["Created"], reverse=True), NextToken, MaxResults)


def _listed(name: str, items: list[Any], token: str | None, size: int | None) -> dict[str, Any]:
    found, following = page(items, token, size, _BAD_TOKEN)
    return {name: found, **({"NextToken": following} if following else {})}


def _service(code: str) -> dict[str, Quota]:
    if code not in catalogue():
        raise AwsError("NoSuchResourceException", f"The service {code} does not exist or has no quotas here.")
    return catalogue()[code]


def _quota(service: str, code: str) -> Quota:
    quotas = _service(service)
    if code not in quotas:
        raise AwsError("NoSuchResourceException", f"The quota {code} does not exist in {service}.")
    return quotas[code]


def _view(ctx: Context, quota: Quota, *, applied: bool) -> dict[str, Any]:
    return {
        "ServiceCode": quota.service,
        "ServiceName": SERVICE_NAMES[quota.service],
        "QuotaArn": ctx.arn("servicequotas", f"{quota.service}/{quota.code}"),
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": ctx.world.quotas.value(quota.service, quota.name, ctx.region) if applied else quota.default,
        "Unit": quota.unit,
        "Adjustable": quota.adjustable,
        "GlobalQuota": False,
        **({"QuotaAppliedAtLevel": "ACCOUNT"} if applied else {}),
    }
