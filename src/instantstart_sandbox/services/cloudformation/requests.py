"""Turning the arguments of CreateStack, UpdateStack and CreateChangeSet into a checked stack record."""

from __future__ import annotations

import copy
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.cloudformation import graph, parameters
from instantstart_sandbox.services.cloudformation.plan import Plan
from instantstart_sandbox.services.cloudformation.records import Stack
from instantstart_sandbox.services.cloudformation.template import (
    MAX_BODY_BYTES,
    MAX_URL_BYTES,
    Template,
    capabilities_given,
    load,
    required_capabilities,
)
from instantstart_sandbox.services.cloudformation.wording import constraint, invalid

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

NAME_PATTERN = r"[a-zA-Z][-a-zA-Z0-9]*"
MAX_TAGS = 50


def template_text(engine: Engine, ctx: Context, body: str | None, url: str | None) -> str | None:
    """The template given in a request, by body or by the URL of an object in the emulated S3; None when neither is given."""
    if body is not None and url is not None:
        raise invalid("You can't specify both TemplateURL and TemplateBody")
    if body is not None:
        if len(body.encode()) > MAX_BODY_BYTES:
            raise constraint(body[:64] + "...", "templateBody", f"have length less than or equal to {MAX_BODY_BYTES}")
        return body
    if url is None:
        return None
    bucket, key = _bucket_and_key(url)
    try:
        content = engine.world.client("s3", ctx.region).get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        raise invalid(f"S3 error: {error.response['Error'].get('Message', 'Access Denied')}") from error
    if len(content) > MAX_URL_BYTES:
        raise invalid(f"Template may not exceed {MAX_URL_BYTES} bytes in size.")
    try:
        return str(content.decode())
    except UnicodeDecodeError as error:
        raise invalid("Template format error: the template is not UTF-8 text") from error


def _bucket_and_key(url: str) -> tuple[str, str]:
    """From either addressing style: ``https://bucket.s3...com/key``, ``https://s3...com/bucket/key`` or a local endpoint."""
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    if parts.scheme not in ("http", "https", "s3") or not parts.hostname:
        raise invalid("The specified url must be a valid S3 URL")
    if parts.scheme == "s3":
        return parts.hostname, path
    bucket, dot, _ = parts.hostname.partition(".s3")
    if dot:
        return bucket, path
    bucket, _, key = path.partition("/")
    return bucket, key


def check_template(engine: Engine, template: Template) -> None:
    """Everything CloudFormation says of a template before it makes anything: types, parameters, references, circles."""
    unknown = sorted({r["Type"] for r in template["Resources"].values()} - set(engine.handlers))
    if unknown:
        raise invalid(f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]")
    parameters.check_declarations(template)
    known = set(template["Resources"]) | set(template.get("Parameters") or {})
    graph.check_references(template, known)
    conditions = set(template.get("Conditions") or {})
    for name, resource in template["Resources"].items():
        if "Condition" in resource and resource["Condition"] not in conditions:
            raise invalid(f"Template format error: Unresolved condition dependency {resource['Condition']} of resource {name}")


def check_capabilities(template: Template, given: list[str]) -> None:
    """InsufficientCapabilitiesException unless the caller acknowledged what the template needs."""
    if not capabilities_given(template, given):
        needed, _ = required_capabilities(template)
        raise AwsError("InsufficientCapabilitiesException", f"Requires capabilities : [{', '.join(needed)}]")


def tag_map(tags: list[dict[str, str]] | None) -> dict[str, str]:
    """The tags of a request; ValidationError for a reserved key or too many."""
    given = {t["Key"]: t["Value"] for t in tags or []}
    if len(given) > MAX_TAGS:
        raise invalid(f"Too many tags: at most {MAX_TAGS} are allowed")
    for key in given:
        if key.lower().startswith("aws:"):
            raise invalid("aws: prefixed tag key names are not allowed for external use.")
    return given


def new_stack(ctx: Context, name: str) -> Stack:
    """A record of a stack of which nothing is known yet."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise constraint(name, "stackName", f"satisfy regular expression pattern: {NAME_PATTERN}")
    if len(name) > 128:
        raise constraint(name, "stackName", "have length less than or equal to 128")
    return Stack(
        id=ctx.arn("cloudformation", f"stack/{name}/{uuid.uuid4()}"), name=name, region=ctx.region, account=ctx.account,
        principal=ctx.principal_arn, status="", reason="", created=ctx.clock.now(), updated=None, deleted=None, template="", parameters={},
        resolved={}, tags={}, capabilities=[], notification_arns=[], role="", on_failure="ROLLBACK", timeout_minutes=None, protected=False,
        retain_except_on_create=False, force_delete=False, token="", phase="", deadline=None, failed=[], retain=[], resources={},
        leftovers={}, outputs=[], imports=[], events=[], before={}, change_set="", tick=0,
    )  # fmt: skip


def fill(engine: Engine, stack: Stack, text: str, asked: dict[str, Any]) -> Plan:
    """Put template, parameters, capabilities and tags into the record, all checked; answers the plan that results.

    ``asked`` are the members of the request. The record may be a copy: nothing else is touched.
    """
    template = load(text)
    check_template(engine, template)
    previous = dict(stack["parameters"])
    stack["template"] = text
    stack["parameters"] = parameters.merge(template, asked.get("Parameters") or [], previous)
    stack["resolved"] = parameters.resolve(template, stack["parameters"], engine.clients(stack))
    stack["capabilities"] = list(asked.get("Capabilities") or [])
    check_capabilities(template, stack["capabilities"])
    if asked.get("Tags") is not None:
        stack["tags"] = tag_map(asked["Tags"])
    if asked.get("NotificationARNs") is not None:
        stack["notification_arns"] = list(asked["NotificationARNs"])
    if asked.get("RoleARN"):
        stack["role"] = _role(engine, stack, asked["RoleARN"])
    refuse_unsupported(asked)
    return engine.plan(stack)


def _role(engine: Engine, stack: Stack, arn: str) -> str:
    try:
        engine.world.client("iam", stack["region"]).get_role(RoleName=arn.rsplit("/", 1)[-1])
    except ClientError as error:
        raise invalid(f"Role {arn} is invalid or cannot be assumed") from error
    return arn


def refuse_unsupported(asked: dict[str, Any]) -> None:
    """What the sandbox would have to ignore, it refuses."""
    for member in ("StackPolicyBody", "StackPolicyURL", "StackPolicyDuringUpdateBody", "StackPolicyDuringUpdateURL", "ResourcesToImport"):
        if asked.get(member):
            raise invalid(f"The sandbox does not support {member}")
    if (asked.get("RollbackConfiguration") or {}).get("RollbackTriggers"):
        raise invalid("The sandbox does not support rollback triggers")
    allowed = asked.get("ResourceTypes")
    if allowed:
        raise invalid("The sandbox does not support ResourceTypes")


def snapshot(stack: Stack) -> dict[str, Any]:
    """What an update may have to go back to."""
    kept = ("template", "parameters", "resolved", "tags", "capabilities", "outputs", "imports", "notification_arns", "role")
    return {key: copy.deepcopy(stack[key]) for key in kept}  # type: ignore[literal-required]
