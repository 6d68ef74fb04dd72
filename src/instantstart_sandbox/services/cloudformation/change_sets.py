"""Change sets for creating and updating a stack. They live in the state under their ARN, with the prepared stack inside."""

from __future__ import annotations

import copy
import re
import uuid
from typing import TYPE_CHECKING, Any, TypedDict

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.cloudformation import differences, requests, views
from instantstart_sandbox.services.cloudformation.events import stack_status
from instantstart_sandbox.services.cloudformation.records import Stack
from instantstart_sandbox.services.cloudformation.stacks import Stacks
from instantstart_sandbox.services.cloudformation.wording import constraint, invalid
from instantstart_sandbox.services.paging import page

if TYPE_CHECKING:
    from instantstart_sandbox.services.cloudformation.engine import Engine

READY = "cloudformation.change_set"
#: virtual seconds until a change set has been computed
SECONDS = 5.0
_NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


class ChangeSet(TypedDict):
    """A change set; ``wanted`` is the stack as it will be when the set is executed."""

    id: str
    name: str
    stack: str
    kind: str
    description: str
    status: str
    reason: str
    execution: str
    created: float
    wanted: Stack
    changes: list[dict[str, Any]]


class ChangeSets:
    """The operations on change sets."""

    def __init__(self, engine: Engine, stacks: Stacks) -> None:
        self.engine, self.stacks = engine, stacks
        engine.world.clock.on(READY, self._computed)

    @property
    def _sets(self) -> dict[str, ChangeSet]:
        found: dict[str, ChangeSet] = self.engine.world.section("cloudformation").setdefault("change_sets", {})
        return found

    def create(self, ctx: Context, StackName: str, ChangeSetName: str, **asked: Any) -> dict[str, Any]:
        """CreateChangeSet of type CREATE or UPDATE."""
        if not re.fullmatch(requests.NAME_PATTERN, ChangeSetName):
            raise constraint(ChangeSetName, "changeSetName", f"satisfy regular expression pattern: {requests.NAME_PATTERN}")
        kind = asked.get("ChangeSetType") or "UPDATE"
        if kind == "IMPORT" or asked.get("IncludeNestedStacks") or asked.get("ImportExistingResources"):
            raise invalid("The sandbox does not support imports and nested stacks in change sets")
        stack = self.stacks.lookup(ctx, StackName)
        if stack is not None and self._named(stack, ChangeSetName):
            raise AwsError("AlreadyExistsException", f"ChangeSet {ChangeSetName} already exists")
        stack, wanted = self._reviewed(ctx, StackName, asked) if kind == "CREATE" else self._updated(ctx, StackName, stack, asked)
        found = differences.changes(self.engine, stack, wanted, self.engine.plan(wanted))
        empty = kind == "UPDATE" and not found and not differences.outputs_differ(self.engine, stack, self.engine.plan(wanted))
        if asked.get("OnStackFailure"):
            wanted["on_failure"] = asked["OnStackFailure"]
        change_set = ChangeSet(
            id=ctx.arn("cloudformation", f"changeSet/{ChangeSetName}/{uuid.uuid4()}"), name=ChangeSetName, stack=stack["id"], kind=kind,
            description=asked.get("Description") or "", status="CREATE_PENDING", reason=_NO_CHANGES if empty else "",
            execution="UNAVAILABLE", created=self.engine.now(), wanted=wanted, changes=[_view(change) for change in found],
        )  # fmt: skip
        self._sets[change_set["id"]] = change_set
        self.engine.world.clock.after(SECONDS, READY, set_id=change_set["id"])
        return {"Id": change_set["id"], "StackId": stack["id"]}

    def _reviewed(self, ctx: Context, name: str, asked: dict[str, Any]) -> tuple[Stack, Stack]:
        """A stack in REVIEW_IN_PROGRESS, made if it is not there, and the stack it is to become."""
        stack = self.stacks.lookup(ctx, name)
        if stack is not None and stack["status"] != "REVIEW_IN_PROGRESS":
            raise invalid(
                f"Stack [{name}] already exists and cannot be created again with the changeSet [{asked.get('ChangeSetName', '')}]."
            )
        fresh = stack or requests.new_stack(ctx, name)
        wanted = copy.deepcopy(fresh)
        text = requests.template_text(self.engine, ctx, asked.get("TemplateBody"), asked.get("TemplateURL"))
        if text is None:
            raise invalid("Either Template URL or Template Body must be specified.")
        requests.fill(self.engine, wanted, text, asked)
        if stack is None:
            self.engine.stacks[fresh["id"]] = fresh
            stack_status(fresh, self.engine.now(), "REVIEW_IN_PROGRESS", "User Initiated")
            wanted["events"] = fresh["events"]
        return fresh, wanted

    def _updated(self, ctx: Context, name: str, stack: Stack | None, asked: dict[str, Any]) -> tuple[Stack, Stack]:
        if stack is None:
            raise invalid(f"Stack [{name}] does not exist")
        return stack, self.stacks.prepare_update(ctx, stack, asked)

    def _computed(self, set_id: str) -> None:
        """Timer: the change set is ready, or failed because it changes nothing."""
        change_set = self._sets.get(set_id)
        if change_set is None or change_set["status"] != "CREATE_PENDING":
            return
        failed = bool(change_set["reason"])
        change_set["status"], change_set["execution"] = ("FAILED", "UNAVAILABLE") if failed else ("CREATE_COMPLETE", "AVAILABLE")
        self.engine.world.changed()

    def _named(self, stack: Stack, name: str) -> ChangeSet | None:
        return next((c for c in self._sets.values() if c["stack"] == stack["id"] and c["name"] == name), None)

    def find(self, ctx: Context, name: str, stack_name: str | None) -> ChangeSet:
        """A change set by ARN, or by name within a stack."""
        found = self._sets.get(name)
        if found is None and stack_name:
            stack = self.stacks.find(ctx, stack_name)
            found = self._named(stack, name)
        elif found is None:
            raise invalid("StackName must be specified if ChangeSetName is not specified as an ARN.")
        if found is None:
            raise AwsError("ChangeSetNotFoundException", f"ChangeSet [{name}] does not exist", 404)
        return found

    def describe(
        self, ctx: Context, ChangeSetName: str, StackName: str | None = None, NextToken: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """DescribeChangeSet."""
        found = self.find(ctx, ChangeSetName, StackName)
        wanted = found["wanted"]
        chosen, token = page(found["changes"], NextToken, 100, "ValidationError")
        return {
            **_summary(found),
            "Parameters": views.parameter_list(wanted),
            "NotificationARNs": wanted["notification_arns"],
            "RollbackConfiguration": {},
            "Capabilities": wanted["capabilities"],
            "Tags": views.tag_list(wanted["tags"]),
            "Changes": chosen,
            "NextToken": token,
        }

    def template(self, ctx: Context, StackName: str | None = None, ChangeSetName: str | None = None, **_: Any) -> dict[str, Any]:
        """GetTemplate of a change set, or of a stack."""
        if not ChangeSetName:
            return self.stacks.template(ctx, StackName or "")
        body = self.find(ctx, ChangeSetName, StackName)["wanted"]["template"]
        return {"TemplateBody": body, "StagesAvailable": ["Original", "Processed"]}

    def list(self, ctx: Context, StackName: str, NextToken: str | None = None) -> dict[str, Any]:
        """ListChangeSets."""
        stack = self.stacks.find(ctx, StackName)
        mine = [_summary(c) for c in self._sets.values() if c["stack"] == stack["id"]]
        chosen, token = page(mine, NextToken, 100, "ValidationError")
        return {"Summaries": chosen, "NextToken": token}

    def delete(self, ctx: Context, ChangeSetName: str, StackName: str | None = None) -> dict[str, Any]:
        """DeleteChangeSet; one that does not exist is no error."""
        try:
            found = self.find(ctx, ChangeSetName, StackName)
        except AwsError as error:
            if error.code == "ChangeSetNotFoundException":
                return {}
            raise
        del self._sets[found["id"]]
        return {}

    def execute(self, ctx: Context, ChangeSetName: str, StackName: str | None = None, **asked: Any) -> dict[str, Any]:
        """ExecuteChangeSet: start the creation or the update; every change set of the stack is then gone or obsolete."""
        found = self.find(ctx, ChangeSetName, StackName)
        if found["status"] != "CREATE_COMPLETE" or found["execution"] != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatusException",
                f"ChangeSet [{found['id']}] cannot be executed in its current status of [{found['status']}]",
            )
        stack = self.engine.stacks[found["stack"]]
        wanted = copy.deepcopy(found["wanted"])
        for key in ("events", "tick"):
            wanted[key] = stack[key]
        if asked.get("DisableRollback"):
            wanted["on_failure"] = "DO_NOTHING"
        wanted["token"], wanted["change_set"] = asked.get("ClientRequestToken") or "", found["id"]
        if found["kind"] == "CREATE":
            self.engine.stacks[stack["id"]] = wanted
            self.engine.begin(wanted, "create", "CREATE_IN_PROGRESS")
        else:
            self.stacks.start_update(wanted)
        for other in [c for c in self._sets.values() if c["stack"] == stack["id"] and c["id"] != found["id"]]:
            other["execution"] = "OBSOLETE"
        found["execution"] = "EXECUTE_COMPLETE"
        return {}


def _view(change: differences.Change) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "Action": change.action,
        "LogicalResourceId": change.logical_id,
        "ResourceType": change.type,
        "Scope": [],
        "Details": [],
    }
    if change.physical:
        detail["PhysicalResourceId"] = change.physical
    if change.action == "Modify":
        tags = change.properties == ("Tags",)
        detail["Replacement"] = change.replacement
        detail["Scope"] = ["Tags"] if tags else ["Properties"]
        detail["Details"] = [
            {
                "Target": {
                    "Attribute": "Tags" if name == "Tags" else "Properties",
                    "Name": name,
                    "RequiresRecreation": {"True": "Always", "False": "Never"}.get(change.replacement, "Conditionally"),
                },
                "Evaluation": "Dynamic" if change.replacement == "Conditional" else "Static",
                "ChangeSource": "DirectModification",
            }
            for name in change.properties
        ]
    return {"Type": "Resource", "ResourceChange": detail}


def _summary(found: ChangeSet) -> dict[str, Any]:
    shown = {
        "ChangeSetId": found["id"],
        "ChangeSetName": found["name"],
        "StackId": found["stack"],
        "StackName": found["wanted"]["name"],
        "Description": found["description"],
        "CreationTime": views.moment(found["created"]),
        "ExecutionStatus": found["execution"],
        "Status": found["status"],
        "StatusReason": found["reason"] if found["status"] == "FAILED" else "",
        "IncludeNestedStacks": False,
    }
    return {key: value for key, value in shown.items() if value != ""}
