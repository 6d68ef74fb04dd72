"""What a resource type has to do, and what it is given: one request of the engine for one resource."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from botocore import xform_name
from botocore.exceptions import ClientError, ParamValidationError
from botocore.model import ListShape, MapShape, StructureShape
from botocore.model import Shape as ModelShape

from instantstart_sandbox.services.cloudformation.records import Resource, Stack
from instantstart_sandbox.services.cloudformation.resources.shapes import Shape
from instantstart_sandbox.services.cloudformation.wording import handler_code

#: ``clients(service)``: an in-process client of the stack's region, acting for the stack's creator
Clients = Callable[[str], Any]


class Failure(Exception):  # noqa: N818 - it ends one resource, not the program
    """A handler gives up: ``message`` and HandlerErrorCode ``code`` go into the stack's event.

    ``busy`` says that the same call may succeed later (a resource that is still used by another one).
    """

    def __init__(self, message: str, code: str = "GeneralServiceException", *, busy: bool = False) -> None:
        super().__init__(message)
        self.message, self.code, self.busy = message, code, busy


#: error codes after which a delete is tried again for a while
_BUSY = frozenset(
    {
        "DependencyViolation", "DeleteConflict", "ResourceInUse", "ResourceInUseException", "ConflictException", "IncorrectState",
        "InvalidParameterException", "InvalidIPAddress.InUse", "InvalidAddress.Locked", "OperationAborted", "ThrottlingException",
    }
)  # fmt: skip


@dataclass
class Request:
    """One resource in the hands of its handler. ``record`` is the saved state; everything a handler learns goes there."""

    stack: Stack
    logical_id: str
    record: Resource
    clients: Clients
    partition: str
    #: whether other services can see a role by now
    iam_visible: Callable[[str], bool]

    @property
    def properties(self) -> dict[str, Any]:
        """The resource's properties with every function resolved."""
        return self.record["properties"]

    @property
    def physical(self) -> str:
        """The physical id; empty until the resource exists."""
        return self.record["physical"]

    @physical.setter
    def physical(self, value: str) -> None:
        self.record["physical"] = value

    @property
    def work(self) -> dict[str, Any]:
        """The handler's own notes (JSON)."""
        return self.record["work"]

    def get(self, name: str, default: Any = None) -> Any:
        """A property."""
        return self.record["properties"].get(name, default)

    def only(self, *names: str) -> dict[str, Any]:
        """Those of the named properties that are set."""
        return {name: self.properties[name] for name in names if name in self.properties}

    def call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """Call an AWS operation; values are turned into the types of the service model (``"true"`` into a boolean).

        Raises Failure with CloudFormation's wording of the service's error.
        """
        client = self.clients(service)
        model = client.meta.service_model.operation_model(operation)
        try:
            typed = coerce(model.input_shape, {k: v for k, v in params.items() if v is not None}) if model.input_shape else {}
            answer: dict[str, Any] = getattr(client, xform_name(operation))(**typed)
        except ClientError as error:
            raise failure_of(client.meta.service_model.service_id, error) from error
        except (ParamValidationError, ValueError) as error:
            raise Failure(f"Model validation failed ({error})", "InvalidRequest") from error
        return answer

    def name(self, longest: int = 128, *, lower: bool = False) -> str:
        """A generated physical name ``Stack-LogicalId-RANDOM``; the same one on every call for this resource."""
        if "name" not in self.work:
            suffix = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(12))
            head = longest - len(suffix) - 2
            stack, logical = self.stack["name"], self.logical_id
            keep = max(head - len(logical), head // 2)
            stem = f"{stack[:keep]}-{logical[: head - len(stack[:keep])]}"
            self.work["name"] = f"{stem}-{suffix}".lower() if lower else f"{stem}-{suffix}"
        return str(self.work["name"])

    def tags(self) -> dict[str, str]:
        """The tags of this resource: the stack's, the template's (which win), and CloudFormation's own three."""
        given = self.get("Tags") or []
        own = {t["Key"]: str(t["Value"]) for t in given} if isinstance(given, list) else {k: str(v) for k, v in given.items()}
        return {
            **self.stack["tags"],
            **own,
            "aws:cloudformation:stack-name": self.stack["name"],
            "aws:cloudformation:logical-id": self.logical_id,
            "aws:cloudformation:stack-id": self.stack["id"],
        }

    def tag_list(self) -> list[dict[str, str]]:
        """``tags()`` as ``[{"Key", "Value"}]``."""
        return [{"Key": key, "Value": value} for key, value in self.tags().items()]

    def tag_specifications(self, resource_type: str) -> list[dict[str, Any]]:
        """``tags()`` as EC2 takes them at creation."""
        return [{"ResourceType": resource_type, "Tags": self.tag_list()}]


class Handler:
    """One resource type. Create, then ``ready`` until it is true; delete, then ``gone`` until it is true.

    A handler sets ``request.physical`` as soon as the resource exists: what has a physical id is deleted by a rollback.
    """

    type: ClassVar[str]
    shape: ClassVar[Shape]
    #: the property that gives the resource a name of the user's choice; such a resource cannot be replaced under the same name
    name_property: ClassVar[str] = ""
    #: the least virtual seconds a creation, and a deletion, takes (typical figures, not measured)
    seconds: ClassVar[float] = 3.0
    delete_seconds: ClassVar[float] = 2.0
    #: virtual seconds between two looks at a resource that is not ready
    poll_seconds: ClassVar[float] = 10.0
    #: how long a resource may take to become ready, and how long a busy delete is tried again
    stabilize_seconds: ClassVar[float] = 1200.0
    busy_seconds: ClassVar[float] = 300.0

    def create(self, request: Request) -> None:
        """Make the resource and set ``request.physical``; raise Failure."""
        raise NotImplementedError

    def ready(self, request: Request) -> bool:
        """Whether the created or updated resource is complete; raise Failure when it never will be."""
        return True

    def update(self, request: Request, old: dict[str, Any]) -> None:
        """Bring the resource from the properties ``old`` to ``request.properties`` without replacing it."""
        raise Failure(f"The sandbox cannot update resources of type {self.type} in place", "NotUpdatable")

    def delete(self, request: Request) -> None:
        """Start the deletion. A Failure with code NotFound counts as deleted."""
        raise NotImplementedError

    def gone(self, request: Request) -> bool:
        """Whether the deletion is over; a Failure with code NotFound says so, too."""
        return True

    def ref(self, request: Request) -> str:
        """The value of Ref."""
        return request.physical

    def attributes(self, request: Request) -> dict[str, Any]:
        """The attributes for GetAtt."""
        return {}


def failure_of(service_id: str, error: ClientError) -> Failure:
    """A service's error as CloudFormation reports it."""
    code = str(error.response["Error"].get("Code", "InternalFailure"))
    message = error.response["Error"].get("Message", "")
    meta = error.response.get("ResponseMetadata", {})
    service = service_id.replace(" ", "").capitalize() if service_id.isupper() else service_id
    text = f"{message} (Service: {service}, Status Code: {meta.get('HTTPStatusCode', 400)}, Request ID: {meta.get('RequestId', '')})"
    failure = Failure(text, handler_code(code), busy=code in _BUSY)
    failure.__cause__ = error
    return failure


def coerce(model: ModelShape, value: Any) -> Any:
    """A value with its scalars in the types of a botocore shape: template values and parameters are often texts."""
    if isinstance(model, StructureShape) and isinstance(value, dict):
        return {k: coerce(model.members[k], v) if k in model.members else v for k, v in value.items()}
    if isinstance(model, ListShape) and isinstance(value, list):
        return [coerce(model.member, v) for v in value]
    if isinstance(model, MapShape) and isinstance(value, dict):
        return {str(k): coerce(model.value, v) for k, v in value.items()}
    return _coerce_scalar(model.type_name, value)


def _coerce_scalar(kind: str, value: Any) -> Any:
    if kind == "boolean" and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{value!r} is not a boolean")
        return value.lower() == "true"
    if kind in ("integer", "long") and isinstance(value, (str, float)):
        return int(value)
    if kind in ("float", "double") and isinstance(value, (str, int)):
        return float(value)
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, (int, float)):
        return str(value)
    return value


def is_true(value: Any) -> bool:
    """A boolean property, which a parameter may have given as text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")
