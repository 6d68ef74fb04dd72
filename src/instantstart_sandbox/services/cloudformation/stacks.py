"""The stack operations: create, update, delete, and everything that reads."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.cloudformation import differences, requests, views
from instantstart_sandbox.services.cloudformation.plan import exports
from instantstart_sandbox.services.cloudformation.records import Resource, Stack
from instantstart_sandbox.services.cloudformation.template import load
from instantstart_sandbox.services.cloudformation.wording import NO_UPDATES, invalid
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

UPDATABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
#: after a failure that was not rolled back, an update may repair the stack
REPAIRABLE = ("CREATE_FAILED", "UPDATE_FAILED")


class Stacks:
    """The operations on stacks. Every method answers one API operation; ``ctx`` says who asks and where."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    # Look-ups

    def find(self, ctx: Context, name: str) -> Stack:
        """A stack by id, or a living one by name; ValidationError when there is none."""
        stack = self.lookup(ctx, name)
        if stack is None:
            raise invalid(f"Stack with id {name} does not exist")
        return stack

    def lookup(self, ctx: Context, name: str) -> Stack | None:
        """As ``find``, or None."""
        stacks = self.engine.stacks
        if name in stacks:
            return stacks[name] if stacks[name]["region"] == ctx.region else None
        alive = [s for s in stacks.values() if s["name"] == name and s["region"] == ctx.region and s["status"] != "DELETE_COMPLETE"]
        return alive[0] if alive else None

    # Changes

    def create(self, ctx: Context, StackName: str, **asked: Any) -> dict[str, Any]:
        """CreateStack. The same ClientRequestToken and arguments once more answer the same stack."""
        existing, digest = self.lookup(ctx, StackName), _digest(StackName, asked)
        token = asked.get("ClientRequestToken") or ""
        if existing is not None and self._repeated(token, "create", existing["id"], digest):
            return {"StackId": existing["id"]}
        if existing is not None:
            raise AwsError("AlreadyExistsException", f"Stack [{StackName}] already exists")
        if asked.get("OnFailure") and asked.get("DisableRollback") is not None:
            raise invalid("Both DisableRollback and OnFailure cannot be specified")
        stack = requests.new_stack(ctx, StackName)
        text = self._text(ctx, asked, None)
        requests.fill(self.engine, stack, text, asked)
        stack["on_failure"] = asked.get("OnFailure") or ("DO_NOTHING" if asked.get("DisableRollback") else "ROLLBACK")
        stack["timeout_minutes"] = asked.get("TimeoutInMinutes")
        stack["protected"] = bool(asked.get("EnableTerminationProtection"))
        stack["retain_except_on_create"] = bool(asked.get("RetainExceptOnCreate"))
        stack["token"] = token
        self.engine.stacks[stack["id"]] = stack
        self._remember(token, "create", stack["id"], digest)
        self.engine.begin(stack, "create", "CREATE_IN_PROGRESS")
        return {"StackId": stack["id"]}

    def update(self, ctx: Context, StackName: str, **asked: Any) -> dict[str, Any]:
        """UpdateStack; ValidationError ``No updates are to be performed.`` when nothing would change."""
        stack, digest = self._existing(ctx, StackName), _digest(StackName, asked)
        token = asked.get("ClientRequestToken") or ""
        if self._repeated(token, "update", stack["id"], digest):
            return {"StackId": stack["id"]}
        wanted = self.prepare_update(ctx, stack, asked)
        plan = self.engine.plan(wanted)
        changed = differences.changes(self.engine, stack, wanted, plan)
        if not changed and not differences.outputs_differ(self.engine, stack, self.engine.plan(wanted)):
            raise invalid(NO_UPDATES)
        wanted["on_failure"] = "DO_NOTHING" if asked.get("DisableRollback") else "ROLLBACK"
        wanted["token"] = token
        self._remember(token, "update", stack["id"], digest)
        self.start_update(wanted)
        return {"StackId": stack["id"]}

    def prepare_update(self, ctx: Context, stack: Stack, asked: dict[str, Any]) -> Stack:
        """A copy of the stack with what the update asks for filled in and checked."""
        if stack["status"] not in (*UPDATABLE, *REPAIRABLE):
            raise invalid(f"Stack:{stack['id']} is in {stack['status']} state and can not be updated.")
        wanted = copy.deepcopy(stack)
        previous = stack["template"] if asked.get("UsePreviousTemplate") else None
        text = self._text(ctx, asked, previous)
        requests.fill(self.engine, wanted, text, asked)
        return wanted

    def start_update(self, wanted: Stack) -> None:
        """Put a prepared copy in the stack's place and begin."""
        stack = self.engine.stacks[wanted["id"]]
        wanted["before"] = requests.snapshot(stack)
        wanted["imports"], wanted["updated"] = [], self.engine.now()
        self.engine.stacks[wanted["id"]] = wanted
        self.engine.begin(wanted, "update", "UPDATE_IN_PROGRESS")

    def delete(self, ctx: Context, StackName: str, **asked: Any) -> None:
        """DeleteStack. A stack that does not exist is no error; one that is being deleted goes on."""
        stack = self.lookup(ctx, StackName)
        if stack is None or stack["status"] == "DELETE_COMPLETE":
            return
        if stack["protected"]:
            raise invalid(f"Stack [{stack['name']}] cannot be deleted while TerminationProtection is enabled")
        if stack["status"] == "DELETE_IN_PROGRESS":
            return
        if stack["phase"] in ("update", "restore", "cleanup"):
            raise invalid(f"Stack [{stack['id']}] cannot be deleted while in status {stack['status']}")
        retain = asked.get("RetainResources") or []
        if retain and stack["status"] != "DELETE_FAILED":
            raise invalid(
                f"Invalid operation on stack [{stack['id']}]. "
                "Specifying resources to retain is only valid for stacks in the DELETE_FAILED state."
            )
        unknown = sorted(set(retain) - set(stack["resources"]))
        if unknown:
            raise invalid(f"The following resources do not exist in the stack: [{', '.join(unknown)}]")
        if asked.get("RoleARN"):
            stack["role"] = asked["RoleARN"]
        stack["retain"], stack["token"] = list(retain), asked.get("ClientRequestToken") or ""
        stack["force_delete"] = asked.get("DeletionMode") == "FORCE_DELETE_STACK"
        self.engine.begin(stack, "delete", "DELETE_IN_PROGRESS")

    def rollback(self, ctx: Context, StackName: str, **asked: Any) -> dict[str, Any]:
        """RollbackStack: of a creation or an update that failed and was told to stay as it is."""
        stack = self._existing(ctx, StackName)
        if stack["status"] not in REPAIRABLE:
            raise invalid(f"Stack:{stack['id']} is in {stack['status']} state and can not be rolled back.")
        stack["token"], stack["on_failure"] = asked.get("ClientRequestToken") or "", "ROLLBACK"
        self.engine.roll_back(stack)
        return {"StackId": stack["id"]}

    def cancel_update(self, ctx: Context, StackName: str, ClientRequestToken: str = "") -> None:
        """CancelUpdateStack."""
        stack = self._existing(ctx, StackName)
        if stack["status"] != "UPDATE_IN_PROGRESS":
            raise invalid(f"CancelUpdateStack cannot be called from current stack status {stack['status']}")
        stack["token"] = ClientRequestToken
        self.engine.cancel_update(stack)

    def continue_rollback(self, ctx: Context, StackName: str, **asked: Any) -> dict[str, Any]:
        """ContinueUpdateRollback; ResourcesToSkip must have failed to be changed back."""
        stack = self._existing(ctx, StackName)
        if stack["status"] != "UPDATE_ROLLBACK_FAILED":
            raise invalid(f"Stack:{stack['id']} is in {stack['status']} state and can not continue rollback.")
        skip = list(asked.get("ResourcesToSkip") or [])
        wrong = [name for name in skip if name not in stack["resources"] or stack["resources"][name]["status"] != "UPDATE_FAILED"]
        if wrong:
            raise invalid(f"The following resource(s) to skip are not in UPDATE_FAILED state: [{', '.join(wrong)}]")
        stack["token"] = asked.get("ClientRequestToken") or ""
        self.engine.continue_rollback(stack, skip)
        return {}

    def protect(self, ctx: Context, StackName: str, EnableTerminationProtection: bool) -> dict[str, Any]:
        """UpdateTerminationProtection."""
        stack = self._existing(ctx, StackName)
        stack["protected"] = EnableTerminationProtection
        return {"StackId": stack["id"]}

    def _existing(self, ctx: Context, name: str) -> Stack:
        stack = self.lookup(ctx, name)
        if stack is None or stack["status"] == "DELETE_COMPLETE":
            raise invalid(f"Stack [{name}] does not exist")
        return stack

    def _text(self, ctx: Context, asked: dict[str, Any], previous: str | None) -> str:
        text = requests.template_text(self.engine, ctx, asked.get("TemplateBody"), asked.get("TemplateURL")) or previous
        if text is None:
            raise invalid("Either Template URL or Template Body must be specified.")
        return text

    def _repeated(self, token: str, action: str, stack_id: str, digest: str) -> bool:
        if not token:
            return False
        known = self.engine.world.section("cloudformation").setdefault("tokens", {}).get(token)
        if known is None:
            return False
        if known != [action, stack_id, digest]:
            raise AwsError("TokenAlreadyExistsException", f"A client request token already exists: {token}")
        return True

    def _remember(self, token: str, action: str, stack_id: str, digest: str) -> None:
        if token:
            self.engine.world.section("cloudformation").setdefault("tokens", {})[token] = [action, stack_id, digest]

    # Reads

    def describe(self, ctx: Context, StackName: str | None = None, NextToken: str | None = None) -> dict[str, Any]:
        """DescribeStacks; without a name, every living stack."""
        if StackName:
            return {"Stacks": [views.stack_view(self.find(ctx, StackName))]}
        alive = [s for s in self._newest_first(ctx) if s["status"] != "DELETE_COMPLETE"]
        chosen, token = page(alive, NextToken, 100, "ValidationError")
        return {"Stacks": [views.stack_view(s) for s in chosen], "NextToken": token}

    def _newest_first(self, ctx: Context) -> list[Stack]:
        return sorted((s for s in self.engine.stacks.values() if s["region"] == ctx.region), key=lambda s: -s["created"])

    def list(self, ctx: Context, NextToken: str | None = None, StackStatusFilter: list[str] | None = None) -> dict[str, Any]:
        """ListStacks; deleted ones included, as on AWS."""
        found = [s for s in self._newest_first(ctx) if not StackStatusFilter or s["status"] in StackStatusFilter]
        chosen, token = page(found, NextToken, 100, "ValidationError")
        return {"StackSummaries": [views.summary_view(s) for s in chosen], "NextToken": token}

    def events(self, ctx: Context, StackName: str, NextToken: str | None = None) -> dict[str, Any]:
        """DescribeStackEvents, newest first, a hundred a page."""
        stack = self._seen(ctx, StackName)
        chosen, token = page(stack["events"][::-1], NextToken, 100, "ValidationError")
        return {"StackEvents": [views.event_view(stack, e) for e in chosen], "NextToken": token}

    def _seen(self, ctx: Context, name: str) -> Stack:
        stack = self.lookup(ctx, name)
        if stack is None:
            raise invalid(f"Stack [{name}] does not exist")
        return stack

    def resources(
        self, ctx: Context, StackName: str | None = None, LogicalResourceId: str | None = None, PhysicalResourceId: str | None = None
    ) -> dict[str, Any]:
        """DescribeStackResources: of a stack, or of the stack that has a physical id."""
        if bool(StackName) == bool(PhysicalResourceId):
            raise invalid("You must specify either StackName or PhysicalResourceId, not both")
        stack = self.find(ctx, StackName) if StackName else self._owner(ctx, str(PhysicalResourceId))
        chosen = {n: r for n, r in stack["resources"].items() if LogicalResourceId in (None, n)}
        if LogicalResourceId and not chosen:
            raise self._no_resource(LogicalResourceId, stack)
        return {"StackResources": [views.resource_view(stack, n, r) for n, r in chosen.items()]}

    def _owner(self, ctx: Context, physical: str) -> Stack:
        for stack in self._newest_first(ctx):
            if any(r["physical"] == physical for r in stack["resources"].values()) and stack["status"] != "DELETE_COMPLETE":
                return stack
        raise invalid(f"Stack for {physical} does not exist")

    def _no_resource(self, name: str, stack: Stack) -> AwsError:
        return invalid(f"Resource {name} does not exist for stack {stack['name']}")

    def _record(self, stack: Stack, name: str) -> Resource:
        if name not in stack["resources"]:
            raise self._no_resource(name, stack)
        return stack["resources"][name]

    def resource(self, ctx: Context, StackName: str, LogicalResourceId: str) -> dict[str, Any]:
        """DescribeStackResource."""
        stack = self._seen(ctx, StackName)
        return {"StackResourceDetail": views.resource_detail(stack, LogicalResourceId, self._record(stack, LogicalResourceId))}

    def list_resources(self, ctx: Context, StackName: str, NextToken: str | None = None) -> dict[str, Any]:
        """ListStackResources."""
        stack = self.find(ctx, StackName)
        chosen, token = page(list(stack["resources"].items()), NextToken, 100, "ValidationError")
        return {"StackResourceSummaries": [views.resource_summary(n, r) for n, r in chosen], "NextToken": token}

    def template(self, ctx: Context, StackName: str) -> dict[str, Any]:
        """The stack's part of GetTemplate: the text as it was given."""
        return {"TemplateBody": self.find(ctx, StackName)["template"], "StagesAvailable": ["Original", "Processed"]}

    def validate(self, ctx: Context, TemplateBody: str | None = None, TemplateURL: str | None = None) -> dict[str, Any]:
        """ValidateTemplate: form, types and references; no values."""
        template = load(self._text(ctx, {"TemplateBody": TemplateBody, "TemplateURL": TemplateURL}, None))
        requests.check_template(self.engine, template)
        described = {"Description": template["Description"]} if "Description" in template else {}
        return {"Parameters": views.template_parameters(template), **described, **views.capabilities_view(template)}

    def summary(self, ctx: Context, **asked: Any) -> dict[str, Any]:
        """GetTemplateSummary of a template or of a stack."""
        name = asked.get("StackName")
        template = load(self._text(ctx, asked, self.find(ctx, name)["template"] if name else None))
        known = {key: template[key] for key in ("Description",) if key in template}
        if "Metadata" in template:
            known["Metadata"] = json.dumps(template["Metadata"])
        return {
            "Parameters": views.summary_parameters(template),
            "ResourceTypes": sorted({r["Type"] for r in template["Resources"].values()}),
            "Version": "2010-09-09",
            **known,
            **views.capabilities_view(template),
        }

    def exports(self, ctx: Context, NextToken: str | None = None) -> dict[str, Any]:
        """ListExports."""
        found = sorted(exports(self.engine.stacks, ctx.region).items())
        chosen, token = page(found, NextToken, 100, "ValidationError")
        return {"Exports": [{"ExportingStackId": s["id"], "Name": n, "Value": v} for n, (s, v) in chosen], "NextToken": token}

    def imports(self, ctx: Context, ExportName: str, NextToken: str | None = None) -> dict[str, Any]:
        """ListImports."""
        found = exports(self.engine.stacks, ctx.region).get(ExportName)
        if found is None:
            raise invalid(f"Export {ExportName} does not exist")
        users = self.engine.importers(found[0], ExportName)
        if not users:
            raise invalid(f"Export '{ExportName}' is not imported by any stack.")
        chosen, token = page(users, NextToken, 100, "ValidationError")
        return {"Imports": chosen, "NextToken": token}


def _digest(name: str, asked: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, asked], sort_keys=True, default=str).encode()).hexdigest()
