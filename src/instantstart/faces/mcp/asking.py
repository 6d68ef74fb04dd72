"""The plan put before the user of the client (MCP elicitation) when a tool that needs an approval is called without one.

A client that cannot ask is answered with the plan.

A yes passes the plan's single-use approval with the same call. It is the word of an agent's client, not of a person at the door: what
the door keeps for a person still waits for one (docs/decisions/0019). From 2026-07-28 on the question travels in the answer of the
call and the client asks again with what the user said; before, it is a request of its own, where the transport carries one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from instantstart.base import log, problems
from instantstart.faces.mcp.projections import plain
from instantstart.faces.mcp.tool import Tool

Json = dict[str, Any]
QUESTION = "agree"
SCHEMA: Json = {
    "type": "object",
    "properties": {QUESTION: {"type": "boolean", "title": "Do it", "description": "Yes to exactly this plan, once."}},
    "required": [QUESTION],
}
_IN_THE_ANSWER_SINCE = "2026-07-28"
_MOST_LINES = 12
_PARTS = (("remove", "Removed"), ("change", "Changed"), ("make", "Made"), ("keep", "Kept"), ("warnings", "Take note"))
#: what an agent whose client asks nobody is told with a plan that has an approval
PLAN_FIRST = "Nothing was changed. Show this plan; after a yes, call again with the same arguments and this approval, without dry_run."
_LAST = "Your yes is for this plan, once. What your organisation keeps for an administrator waits for one all the same."


def can(context: Any) -> bool:
    """Whether the client said that it can put a form before its user, and this connection can carry the question."""
    capabilities = context.session.client_capabilities
    asks = capabilities.elicitation if capabilities is not None else None
    has_forms = asks is not None and (asks.form is not None or asks.url is None)
    return has_forms and (_in_the_answer(context) or context.session.can_send_request)


def _in_the_answer(context: Any) -> bool:
    return str(context.protocol_version) >= _IN_THE_ANSWER_SINCE  # versions are dates


async def ask(context: Any, tool: Tool, arguments: Mapping[str, Any], plan: Mapping[str, Any]) -> InputRequiredResult | ElicitResult:
    """The user's answer; or the question as the answer of this call, to be called again with what the user says."""
    told = message(tool, arguments, plan)
    if _in_the_answer(context):
        request = ElicitRequest(params=ElicitRequestFormParams(message=told, requested_schema=SCHEMA))
        return InputRequiredResult(input_requests={QUESTION: request}, request_state=str(plan["approval"]))
    answer: ElicitResult = await context.session.elicit_form(told, SCHEMA, context.request_id)
    return answer


def answered(params: Any) -> tuple[ElicitResult | None, str | None]:
    """What a call that is asked again brings: the user's answer and the approval it is about; (None, None) on a first call."""
    given = (getattr(params, "input_responses", None) or {}).get(QUESTION)
    state = getattr(params, "request_state", None)
    return (given, state) if isinstance(given, ElicitResult) and state else (None, None)


def check(answer: ElicitResult) -> None:
    """Raises Conflict unless the user said yes."""
    if answer.action == "accept" and (answer.content or {}).get(QUESTION) is True:
        return
    closed = answer.action == "cancel"
    said = "closed the question without an answer" if closed else "said no"
    raise problems.Conflict(
        "approval.not_given",
        f"The person who was asked {said}: nothing was changed.",
        hint="Ask what they want instead; call again only when they wish it.",
    )


def message(tool: Tool, arguments: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """The plan in lines for a person: names in it are others' text, so every line is printable, cut, and under our own words."""
    asked = plain(json.dumps(log.redact(dict(arguments)), ensure_ascii=False), 300)
    lines = [f"An agent asks for {tool.name} {asked}"]
    for key, title in _PARTS:
        lines += _part(title, [str(each) for each in plan.get(key) or ()])
    lines += _part("Checks", [f"{each['level']}: {each['detail']}" for each in plan.get("findings") or () if each["level"] != "ok"])
    return "\n".join([*lines, _LAST])


def _part(title: str, texts: list[str]) -> list[str]:
    more = [f"  (and {len(texts) - _MOST_LINES} more)"] if len(texts) > _MOST_LINES else []
    return [f"{title}:", *(f"  - {plain(str(log.redact(text)), 200)}" for text in texts[:_MOST_LINES]), *more] if texts else []
