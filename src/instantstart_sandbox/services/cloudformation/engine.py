"""The engine: one timer a stack, and the phases that an operation goes through.

create -> (rollback) ; update -> (restore) -> cleanup ; delete. All that an operation knows is in the stack's record, and the timer
holds only the stack's id, so that a restart in the middle goes on where it was.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.services.cloudformation import applying, removing
from instantstart_sandbox.services.cloudformation.events import stack_status
from instantstart_sandbox.services.cloudformation.intrinsics import Made, text_of
from instantstart_sandbox.services.cloudformation.plan import Plan, exports, make_plan
from instantstart_sandbox.services.cloudformation.records import Export, Resource, Stack
from instantstart_sandbox.services.cloudformation.resources import HANDLERS
from instantstart_sandbox.services.cloudformation.resources.handler import Failure, Handler, Request
from instantstart_sandbox.services.cloudformation.wording import USER_INITIATED, handler_code, names

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

TICK = "cloudformation.tick"
#: virtual seconds before the first resource of an operation starts, and between two phases
START_SECONDS, PHASE_SECONDS = 2.0, 3.0


class Engine:
    """Runs the operations of every stack of the world. Every method is called with the clock's lock held."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.handlers: dict[str, Handler] = HANDLERS
        self._busy: set[str] = set()
        world.clock.on(TICK, self.tick)

    # What the steps ask of the engine

    @property
    def stacks(self) -> dict[str, Stack]:
        """Every stack by id, deleted ones included."""
        found: dict[str, Stack] = self.world.section("cloudformation").setdefault("stacks", {})
        return found

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return self.world.clock.now()

    def handler(self, record: Resource) -> Handler:
        """The handler of a resource's type."""
        return self.handlers[record["type"]]

    def clients(self, stack: Stack) -> Callable[[str], Any]:
        """``clients(service)``: in-process clients in the stack's region, acting for its role or its creator."""
        principal = stack["role"] or stack["principal"]

        return lambda service: self.world.client(service, stack["region"], principal)

    def request(self, stack: Stack, logical_id: str, record: Resource) -> Request:
        """A handler's view of one resource."""
        return Request(stack, logical_id, record, self.clients(stack), self.world.partition(stack["region"]), self.world.iam_visible)

    def made(self, stack: Stack) -> dict[str, Made]:
        """What the stack's resources have become so far."""
        return {name: Made(r["ref"], r["attributes"]) for name, r in stack["resources"].items() if r["ref"]}

    def plan(self, stack: Stack) -> Plan:
        """What the stack's template asks for."""
        return make_plan(self.world, self.stacks, stack)

    @contextmanager
    def weather(self, stack: Stack, subject: str) -> Iterator[None]:
        """Fail the act inside when a fault rule says so. ``subject`` is ``AWS::EC2::VPC/LogicalId/Create``; a rule matches it
        after ``cloudformation:``.

        A rule with ``when: after`` lets the act happen and fails the resource then.
        """
        fault = self.world.faults.draw("cloudformation", subject, stack["region"], internal=True)
        if fault is not None and fault.code and fault.when == "before":
            raise Failure(fault.message, handler_code(fault.code))
        yield
        if fault is not None and fault.code:
            raise Failure(fault.message, handler_code(fault.code))

    @contextmanager
    def guarded(self, kind: str) -> Iterator[None]:
        """A handler that breaks fails its resource (InternalFailure) and is noted in the crash ledger; it does not stop the world."""
        try:
            yield
        except Failure:
            raise
        except Exception as error:
            self.world.journal.crashed("cloudformation", kind, repr(error), traceback.format_exc())
            raise Failure(f"Internal error of the sandbox: {error!r}", "InternalFailure") from error

    # Starting operations

    def begin(self, stack: Stack, phase: str, status: str, reason: str = USER_INITIATED) -> None:
        """Start an operation on a stack."""
        stack["phase"], stack["failed"] = phase, []
        self._close_round(stack)
        if phase == "delete":
            self._reopen_deletes(stack)
        stack_status(stack, self.now(), status, reason)
        minutes = stack["timeout_minutes"] if phase == "create" else None
        stack["deadline"] = self.now() + 60 * minutes if minutes else None
        self._schedule(stack, START_SECONDS)

    def _close_round(self, stack: Stack) -> None:
        """Forget how an earlier operation treated the resources; what an update had replaced and not yet deleted becomes a leftover."""
        for name, record in stack["resources"].items():
            touched, before = record.pop("touched", ""), record.pop("before", None)
            if touched == "replace" and before is not None:
                stack["leftovers"][f"{name}#old"] = before

    def roll_back(self, stack: Stack) -> None:
        """Undo a creation or an update that failed and was left as it was."""
        created = stack["status"] == "CREATE_FAILED"
        stack["failed"] = []
        if created:
            stack["phase"] = "rollback"
        else:
            applying.open_restore(stack)
            stack["phase"] = "restore"
        stack_status(stack, self.now(), "ROLLBACK_IN_PROGRESS" if created else "UPDATE_ROLLBACK_IN_PROGRESS", USER_INITIATED)
        self._schedule(stack, START_SECONDS)

    def cancel_update(self, stack: Stack) -> None:
        """End a running update and go back to what was."""
        applying.cancel(self, stack)
        applying.open_restore(stack)
        stack["phase"], stack["failed"] = "restore", []
        stack_status(stack, self.now(), "UPDATE_ROLLBACK_IN_PROGRESS", USER_INITIATED)
        self._schedule(stack, START_SECONDS)

    def continue_rollback(self, stack: Stack, skip: list[str]) -> None:
        """Try once more to change back what could not be changed back; the resources to skip are taken as they are."""
        for name, record in stack["resources"].items():
            if "touched" in record and record["status"] == "UPDATE_FAILED":
                record["status"] = "UPDATE_COMPLETE" if name in skip else ""
        stack["phase"], stack["failed"] = "restore", []
        stack_status(stack, self.now(), "UPDATE_ROLLBACK_IN_PROGRESS", USER_INITIATED)
        self._schedule(stack, START_SECONDS)

    def _reopen_deletes(self, stack: Stack) -> None:
        """A deletion takes up what an earlier one failed on; leftovers of a failed update go with the stack."""
        for name, record in stack["leftovers"].items():
            stack["resources"].setdefault(name, record)
        stack["leftovers"] = {}
        for record in stack["resources"].values():
            if record["status"] == "DELETE_FAILED":
                record["status"] = "CREATE_COMPLETE"

    def _schedule(self, stack: Stack, seconds: float) -> None:
        stack["tick"] += 1
        self.world.clock.after(seconds, TICK, stack_id=stack["id"], number=stack["tick"])

    # The timer

    def tick(self, stack_id: str, number: int) -> None:
        """Advance a stack. A handler's own calls drain the clock, too: a stack that is being advanced is left alone."""
        stack = self.stacks.get(stack_id)
        if stack is None or stack["tick"] != number or not stack["phase"] or stack_id in self._busy:
            return
        self._busy.add(stack_id)
        try:
            wait = self._advance(stack)
        finally:
            self._busy.discard(stack_id)
            self.world.changed()
        if stack["phase"] and wait is not None:
            self._schedule(stack, max(wait, 0.5))

    def _advance(self, stack: Stack) -> float:
        phases: dict[str, Callable[[Stack], float]] = {
            "create": self._apply,
            "update": self._apply,
            "restore": self._restore,
            "rollback": self._remove_all,
            "delete": self._remove_all,
            "cleanup": self._cleanup,
        }
        return phases[stack["phase"]](stack)

    # Create and update

    def _apply(self, stack: Stack) -> float:
        if stack["deadline"] is not None and self.now() >= stack["deadline"]:
            applying.cancel(self, stack)
            return self._apply_failed(stack, "Stack creation time exceeded the specified timeout. ")
        plan = self.plan(stack)
        wait = applying.step(self, stack, plan)
        if stack["failed"] and stack["on_failure"] != "DO_NOTHING":
            applying.cancel(self, stack)
            return self._apply_failed(stack, "")
        if wait is not None:
            left = stack["deadline"] - self.now() if stack["deadline"] else wait
            return min(wait, max(left, 0.0))
        if stack["failed"]:
            return self._apply_failed(stack, "")
        return self._applied(stack, plan)

    def _applied(self, stack: Stack, plan: Plan) -> float:
        try:
            plan.scope.made = self.made(stack)
            stack["outputs"] = self._outputs(stack, plan)
        except AwsError as error:
            return self._apply_failed(stack, error.message)
        if stack["phase"] == "create":
            self._finish(stack, "CREATE_COMPLETE")
            return 0.0
        self._collect_leftovers(stack, plan)
        stack_status(stack, self.now(), "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        stack["phase"] = "cleanup"
        return PHASE_SECONDS

    def _collect_leftovers(self, stack: Stack, plan: Plan) -> None:
        """What was replaced, and what the template no longer has, is to be deleted now that its successors are there."""
        for name, record in list(stack["resources"].items()):
            before = record.pop("before", None)
            if record.pop("touched", "") == "replace" and before is not None:
                before["deletion_policy"] = before["replace_policy"]
                stack["leftovers"][f"{name}#old"] = before
            if name not in plan.resources:
                del stack["resources"][name]
                if record["physical"] and record["status"] not in removing.OVER:
                    stack["leftovers"][name] = record

    def _apply_failed(self, stack: Stack, why: str) -> float:
        verb = "create" if stack["phase"] == "create" else "update"
        reason = why or f"The following resource(s) failed to {verb}: {names(stack['failed'])}. "
        if stack["on_failure"] == "DO_NOTHING":
            self._finish(stack, f"{verb.upper()}_FAILED", reason)
        elif stack["phase"] == "update":
            applying.open_restore(stack)
            stack_status(stack, self.now(), "UPDATE_ROLLBACK_IN_PROGRESS", reason)
            stack["phase"], stack["failed"] = "restore", []
        elif stack["on_failure"] == "DELETE":
            stack_status(stack, self.now(), "DELETE_IN_PROGRESS", f"{reason}Delete requested by user.")
            stack["phase"] = "delete"
        else:
            stack_status(stack, self.now(), "ROLLBACK_IN_PROGRESS", f"{reason}Rollback requested by user.")
            stack["phase"] = "rollback"
        return PHASE_SECONDS

    def _outputs(self, stack: Stack, plan: Plan) -> list[Export]:
        taken, result = exports(self.stacks, stack["region"]), []
        for key, output in plan.outputs.items():
            export = text_of(plan.scope.resolve(output["Export"]["Name"])) if "Export" in output else ""
            owner = taken.get(export)
            if owner is not None and owner[0]["id"] != stack["id"]:
                raise AwsError("ValidationError", f"Export with name {export} is already exported by stack {owner[0]['name']}. ")
            value = plan.scope.resolve(output["Value"])
            if isinstance(value, (list, dict)):
                raise AwsError(
                    "ValidationError",
                    f"Template format error: Output {key} is malformed. The Value field of every Outputs member must evaluate to a String.",
                )
            description = text_of(plan.scope.resolve(output.get("Description")))
            result.append(Export(key=key, value=text_of(value), description=description, export=export))
        kept = {o["export"]: o["value"] for o in result if o["export"]}
        for old in stack["outputs"]:
            users = self.importers(stack, old["export"]) if old["export"] and kept.get(old["export"]) != old["value"] else []
            if users:
                raise AwsError("ValidationError", f"Export {old['export']} cannot be updated as it is in use by {', '.join(users)}. ")
        return result

    def importers(self, stack: Stack, export: str) -> list[str]:
        """The names of the other stacks that import a name."""
        alive = [s for s in self.stacks.values() if s["region"] == stack["region"] and s["status"] != "DELETE_COMPLETE"]
        return [s["name"] for s in alive if export in s["imports"] and s["id"] != stack["id"]]

    # Undo an update

    def _restore(self, stack: Stack) -> float:
        wait = applying.step_restore(self, stack)
        if wait is not None:
            return wait
        if stack["failed"]:
            self._finish(stack, "UPDATE_ROLLBACK_FAILED", f"The following resource(s) failed to update: {names(stack['failed'])}. ")
            return 0.0
        self._close_round(stack)
        for key, value in copy.deepcopy(stack["before"]).items():
            stack[key] = value  # type: ignore[literal-required]
        stack_status(stack, self.now(), "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        stack["phase"] = "cleanup"
        return PHASE_SECONDS

    # Delete

    def _cleanup(self, stack: Stack) -> float:
        wait = removing.step(self, stack, stack["leftovers"])
        if wait is not None:
            return wait
        stack["leftovers"] = {}
        self._finish(stack, stack["status"].removesuffix("_CLEANUP_IN_PROGRESS"))
        return 0.0

    def _remove_all(self, stack: Stack) -> float:
        failed = "ROLLBACK_FAILED" if stack["phase"] == "rollback" else "DELETE_FAILED"
        for output in stack["outputs"]:
            users = self.importers(stack, output["export"]) if output["export"] else []
            if users:
                self._finish(stack, failed, f"Export {output['export']} cannot be deleted as it is in use by {', '.join(users)}")
                return 0.0
        wait = removing.step(self, stack, stack["resources"])
        if wait is not None:
            return wait
        left = [name for name, record in stack["resources"].items() if record["status"] == "DELETE_FAILED"]
        if left:
            self._finish(stack, failed, f"The following resource(s) failed to delete: {names(left)}. ")
        elif stack["phase"] == "rollback":
            self._finish(stack, "ROLLBACK_COMPLETE")
        else:
            stack["deleted"] = self.now()
            stack["outputs"], stack["imports"] = [], []
            self._finish(stack, "DELETE_COMPLETE")
        return 0.0

    def _finish(self, stack: Stack, status: str, reason: str = "") -> None:
        stack_status(stack, self.now(), status, reason)
        stack["phase"], stack["deadline"] = "", None
