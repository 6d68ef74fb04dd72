"""What can be done with MLflow: the table of contents of this slice. Declarations only."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.training.mlflow import removal, specs, stages
from instantstart.operations.declare import Stage, Workflow

_STORE = Stage("store", stages.prepare_store, "See the bucket of the artifacts", within=minutes(30), typical=5)
_ROLE = Stage("role", stages.make_role, "Make the role that SageMaker acts as", within=minutes(30), typical=5)
_CREATE = Stage("create", stages.create, "Ask SageMaker for it", within=minutes(30), typical=10)
_ROLES = Stage("roles", stages.grant_roles, "Let the pods' role log to it", within=minutes(30), typical=5)
_ACCOUNTS = Stage("accounts", stages.grant_accounts, "Give the service accounts that role", within=minutes(30), typical=5)
_VERIFY = Stage("verify", stages.verify_access, "Read every link anew", within=minutes(30), typical=5)

CREATE_SERVER = Workflow(
    "mlflow_server.create",
    "Create a tracking server",
    specs.CreateTarget,
    specs.named_subject,
    (
        _STORE,
        _ROLE,
        _CREATE,
        Stage("usable", stages.await_usable, "Wait until it answers", within=minutes(120), typical=1200),
        _ROLES,
        _ACCOUNTS,
        _VERIFY,
    ),
)
CREATE_APP = Workflow(
    "mlflow_app.create",
    "Create an MLflow app",
    specs.CreateTarget,
    specs.named_subject,
    (
        _STORE,
        _ROLE,
        _CREATE,
        Stage("usable", stages.await_usable, "Wait until it answers", within=minutes(120), typical=120),
        _ROLES,
        _ACCOUNTS,
        _VERIFY,
    ),
)
GRANT = Workflow(
    "mlflow_access.grant",
    "Let training pods log to MLflow",
    specs.GrantTarget,
    specs.grant_subject,
    (_ROLES, _ACCOUNTS, _VERIFY),
    queueable=True,
)
DELETE = Workflow(
    "mlflow.delete",
    "Delete a tracking server or app",
    specs.NamedTarget,
    specs.named_subject,
    (
        Stage("access", removal.revoke, "Take it out of the pods' role", within=minutes(30), typical=5),
        Stage("remove", removal.remove, "Delete it, and see it gone", within=minutes(60), typical=300),
        Stage("role", removal.remove_role, "Take away what it acted as", within=minutes(30), typical=5),
    ),
    destructive=True,
    overtakes=frozenset({"mlflow_app.create", "mlflow_server.create"}),
)
SHARE = Workflow(
    "mlflow.share",
    "Share runs with another account",
    specs.ShareTarget,
    specs.share_subject,
    (
        Stage("reach", stages.reach, "Take the other account's role, and see both sides answer", within=minutes(30), typical=5),
        Stage("copy", stages.copy, "Copy the runs that are new or have changed", within=minutes(24 * 60), typical=300),
    ),
)

WORKFLOWS = (CREATE_SERVER, CREATE_APP, GRANT, DELETE, SHARE)
