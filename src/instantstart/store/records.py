"""What the store answers: frozen records. Every moment is an aware UTC datetime; JSON fields are plain dicts and lists."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Json = Mapping[str, Any]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Page(Generic[Row]):
    """One page of a list. ``cursor`` asks for the next one; None: this is the last."""

    items: tuple[Row, ...]
    cursor: str | None = None


@dataclass(frozen=True)
class OperationRow:
    """One operation as stored. ``number`` orders operations; 0 until the store has given one."""

    id: str
    workflow: str
    subject: str
    cluster: str | None
    status: str
    caller: str
    spec: Json
    #: hash of the workflow, subject and spec: finds an equal operation
    spec_hash: str
    created_at: dt.datetime
    number: int = 0
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    problem: Json | None = None
    #: a person asked to stop it; takes effect between ticks
    cancel_by: str | None = None
    #: it may not run before a person has said yes
    needs_approval: bool = False
    approved_by: str | None = None
    #: how often the engine has begun an execution of it (a retry, a mended crash); 0: not yet
    execution: int = 0
    #: sequence of its latest event
    seq: int = 0


@dataclass(frozen=True)
class StageRow:
    """One stage of an operation as stored."""

    operation_id: str
    name: str
    position: int
    status: str
    attempt: int = 1
    because: str | None = None
    #: since when ``status`` and ``because`` hold
    since: dt.datetime | None = None
    #: when this attempt first ran; the deadline counts from here, also over restarts
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    progress: Json | None = None
    learned: Json | None = None
    problem: Json | None = None


@dataclass(frozen=True)
class EventRow:
    """One line of an operation's history. ``seq`` counts from 1 within the operation, without gaps."""

    operation_id: str
    seq: int
    at: dt.datetime
    level: str
    stage: str | None
    message: str
    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True)
class OperationFilter:
    """What to list. Empty fields do not narrow. ``oldest_first`` turns the order round."""

    statuses: tuple[str, ...] = ()
    workflow: str | None = None
    subject: str | None = None
    cluster: str | None = None
    caller: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True)
class Repeat:
    """What an Idempotency-Key of a caller stands for."""

    request_hash: str
    answer: Json


@dataclass(frozen=True)
class IdentityRow:
    """Who may enter: ``role`` viewer, operator or admin; ``kind`` person or agent. The secret is not here."""

    id: str
    name: str
    role: str
    kind: str
    created_at: dt.datetime
    expires_at: dt.datetime | None = None
    revoked_at: dt.datetime | None = None
    last_used_at: dt.datetime | None = None
    selected_cluster: str | None = None
    note: str | None = None
    #: the identity provider that vouches for this person; None: enters with a token of ours
    issuer: str | None = None
    #: the provider's own name of the person
    subject: str | None = None
    disabled_at: dt.datetime | None = None
    #: when its present token was made; None: together with it, or it has none
    token_made_at: dt.datetime | None = None

    @property
    def lifetime(self) -> dt.timedelta | None:
        """How long its present token was given; None: for ever."""
        return self.expires_at - (self.token_made_at or self.created_at) if self.expires_at else None


@dataclass(frozen=True)
class IdentityFilter:
    """Which identities to list. Empty fields do not narrow. ``state``: active, disabled, expired or revoked."""

    role: str | None = None
    kind: str | None = None
    state: str | None = None
    text: str | None = None
    sort: str = "created_at"
    falling: bool = False


@dataclass(frozen=True)
class Entrance:
    """How a session began: ``client`` console or cli; ``via`` link, token or oidc; from which address, with which program."""

    client: str = "console"
    via: str = "token"
    address: str | None = None
    agent: str | None = None


@dataclass(frozen=True)
class SessionRow:
    """A signed-in session of a person; its secret is not here."""

    id: str
    identity: IdentityRow
    created_at: dt.datetime
    expires_at: dt.datetime
    client: str | None = None
    via: str | None = None
    address: str | None = None
    agent: str | None = None
    last_seen_at: dt.datetime | None = None


@dataclass(frozen=True)
class SignInRow:
    """A person on the way to the identity provider and back. ``port``: the command line that waits on this loopback port."""

    next: str
    proof_hash: str
    port: int | None = None
    client_state: str | None = None


@dataclass(frozen=True)
class ApprovalRow:
    """A wish to change something that waits for, or has got, a yes. Bound to one caller and one exact request."""

    id: str
    caller: str
    request_hash: str
    summary: str
    created_at: dt.datetime
    expires_at: dt.datetime
    #: "pending", "granted", "rejected" or "used"
    state: str
    decided_by: str | None = None
    decided_at: dt.datetime | None = None


@dataclass(frozen=True)
class AuditRow:
    """One change, or one refusal at the door: who, from where, through which face, what, with which answer."""

    number: int
    at: dt.datetime
    caller: str
    kind: str
    role: str
    face: str
    method: str
    path: str
    summary: str
    status: int
    operation_id: str | None = None
    #: the caller's name at that time
    name: str | None = None
    address: str | None = None
    #: the route's own name, such as ``cluster_delete``
    action: str | None = None
    cluster: str | None = None
    #: code of the problem that was answered
    code: str | None = None
    #: what was made, begun or changed: its name and id, or an operation's subject
    target: str | None = None


@dataclass(frozen=True)
class AuditFilter:
    """What to list of the audit log. Empty fields do not narrow. ``outcome``: done, refused or failed."""

    caller: str | None = None
    face: str | None = None
    operation_id: str | None = None
    path_prefix: str | None = None
    after: dt.datetime | None = None
    before: dt.datetime | None = None
    action: str | None = None
    outcome: str | None = None
    cluster: str | None = None
    text: str | None = None
    #: a part of what was made, begun or changed
    target: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True)
class ClusterRow:
    """A registered cluster. The cloud is the truth; this is where to look. ``origin`` is created or imported."""

    tag: str
    region: str
    eks_name: str | None = None
    eks_arn: str | None = None
    hyperpod_name: str | None = None
    hyperpod_arn: str | None = None
    origin: str = "created"
    state: Json = field(default_factory=dict)
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None


@dataclass(frozen=True)
class FormRow:
    """A form that an identity keeps under a name: ``kind`` says what it is a form of, ``content`` is what was filled in."""

    identity: str
    kind: str
    name: str
    content: Json
    created_at: dt.datetime
    updated_at: dt.datetime
