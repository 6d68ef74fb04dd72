"""The gateway: one WSGI application that is the AWS endpoint of the sandbox."""

from __future__ import annotations

import hashlib
import http
import json
import re
import time
import traceback
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway import resources, skew, validate, wire
from instantstart_sandbox.gateway.errors import AwsError, ReplyLost
from instantstart_sandbox.gateway.guarding import Chain, Inner, OwnedInner
from instantstart_sandbox.gateway.iam import Iam
from instantstart_sandbox.gateway.inprocess import INTERNAL
from instantstart_sandbox.gateway.registry import Context, OwnedHandler
from instantstart_sandbox.gateway.small_pages import shrink_page
from instantstart_sandbox.world.faults import Fault
from instantstart_sandbox.world.habits import Caller, agent_of, client_token
from instantstart_sandbox.world.journal import Entry

if TYPE_CHECKING:
    from instantstart_sandbox.services.amp import Queries
    from instantstart_sandbox.services.balanced import Balancers
    from instantstart_sandbox.services.invocations import Invocations
    from instantstart_sandbox.services.mlflow.plane import Plane
    from instantstart_sandbox.world.state import World

_READS = ("Describe", "List", "Get", "Head", "Search", "BatchGet", "Lookup", "Simulate", "Validate", "Estimate", "Filter")
_FORBIDDEN_PATHS = ("/moto-api", "/latest/meta-data", "/latest/api")
_ARN = re.compile(rb"\barn(?::|%3A)(aws[a-z-]*)(?::|%3A)")
#: how a call that was halted before its act stands in the journal
_NEVER_CAME = AwsError("NeverCame", "The caller was gone before the act.", 500)
#: between two looks whether a held caller is let go (real seconds)
_HELD_SECONDS = 0.02
StartResponse = Callable[..., Any]


@dataclass
class _Visit:
    """One request on its way through: what is known of it so far."""

    environ: wire.Environ
    body: bytes
    seq: int
    started: float = field(default_factory=time.perf_counter)
    scope: wire.Scope | None = None
    call: wire.Call | None = None
    context: Context | None = None
    fault: Fault | None = None
    resources: tuple[str, ...] = ()
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def internal(self) -> bool:
        """Whether the sandbox asks itself."""
        return INTERNAL in self.environ

    @property
    def caller(self) -> Caller:
        """The program that asks, and what for."""
        named = f"{self.call.service}:{self.call.operation}" if self.call else "?"
        return Caller(agent_of(self.environ.get("HTTP_USER_AGENT", "")), named)


def _partitions(visit: _Visit) -> tuple[str, ...]:
    """The partitions of the ARNs in a request's address and in the first MiB of its body."""
    address = str(visit.environ.get("REQUEST_URI") or visit.environ.get("QUERY_STRING", ""))
    return tuple(sorted({found.decode() for found in _ARN.findall(address.encode() + b" " + visit.body[: 1 << 20])}))


class Gateway:
    """Answers requests: match, validate, faults, then under one lock: IAM, the owned handler or moto; journal."""

    def __init__(self, world: World) -> None:
        self.world = world
        wire.follow(world.clock)
        wire.reset_backends()
        self.moto = wire.Moto()
        self.iam = Iam(world)
        #: what is run after a call that may have changed something (the snapshot)
        self.after_change: Callable[[], None] = lambda: None
        #: the stand-in of the model hub, below /_hub
        self.hub: Callable[[wire.Environ, StartResponse], Iterable[bytes]] | None = None
        #: MLflow's data plane: requests that name a server or app in a header
        self.mlflow: Plane | None = None
        #: queries of Amazon Managed Prometheus
        self.queries: Queries | None = None
        #: requests to the names of load balancers
        self.balancers: Balancers | None = None
        #: calls of SageMaker endpoints
        self.invocations: Invocations | None = None
        self.admin: Callable[[wire.Environ, StartResponse], Iterable[bytes]] | None = None

    partition_of = staticmethod(wire.partition_of)

    def reset(self) -> None:
        """Forget moto's state."""
        wire.reset_backends()
        self.iam.seed()
        if self.mlflow is not None:
            self.mlflow.close()

    def __call__(self, environ: wire.Environ, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI. ReplyLost passes through to the server, which closes the socket."""
        if environ.get("PATH_INFO", "").startswith("/_sandbox/") and self.admin is not None:
            return self.admin(environ, start_response)
        if environ.get("PATH_INFO", "").startswith("/_hub/") and self.hub is not None:
            return self.hub(environ, start_response)
        if self.mlflow is not None and self.mlflow.wants(environ):
            return self.mlflow(environ, start_response)
        if self.queries is not None and self.queries.wants(environ):
            return self.queries(environ, start_response)
        if self.invocations is not None and self.invocations.wants(environ):
            return self.invocations(environ, start_response)
        if self.balancers is not None and self.balancers.wants(environ):
            return self.balancers(environ, start_response)
        environ.pop(INTERNAL, None)
        answer = self.answer(environ)
        reason = http.HTTPStatus(answer.status).phrase if answer.status in http.HTTPStatus._value2member_map_ else "Unknown"
        head = environ["REQUEST_METHOD"] == "HEAD"
        headers = [(k, v) for k, v in answer.headers if k.lower() != "date" and (k.lower() != "content-length" or head)]
        headers.append(("Date", formatdate(self.world.clock.now(), usegmt=True)))  # as on AWS: the clock that its times are of
        if not head:
            headers.append(("Content-Length", str(len(answer.body))))
        start_response(f"{answer.status} {reason}", headers)
        return [answer.body]

    def answer(self, environ: wire.Environ) -> wire.Answer:
        """The answer to one request, whatever happens; only ReplyLost is raised."""
        visit = _Visit(environ, b"", self.world.journal.next_seq())
        error: AwsError | None = None
        try:
            answer = self._visit(visit)
        except ReplyLost:
            self._record(visit, self._refuse(visit, _NEVER_CAME), _NEVER_CAME.code)
            raise
        except AwsError as refused:
            error, answer = refused, self._refuse(visit, refused)
        except Exception as crash:  # noqa: BLE001 - the sandbox's request boundary: a crash is recorded and answered
            error = self._crashed(visit, crash)
            answer = self._refuse(visit, error)
        lost = visit.fault is not None and visit.fault.loses_reply
        self._record(visit, answer, "ReplyLost" if lost else (error.code if error else ""))
        if visit.fault is not None and lost:
            self._hold_while(visit.fault)
            raise ReplyLost
        return answer

    def _visit(self, visit: _Visit) -> wire.Answer:
        environ = visit.environ
        if environ.get("PATH_INFO", "").startswith(_FORBIDDEN_PATHS):
            raise AwsError("AccessDenied", "This path is not part of AWS.", 403)
        visit.body = self._read(environ)
        visit.scope = wire.scope_of(environ, visit.body, self.world.region)
        if visit.scope is None:
            raise AwsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
        visit.call = wire.match(visit.scope, environ, visit.body)
        if not visit.internal:
            stamp = environ.get("HTTP_X_AMZ_DATE", "")
            skew.check(visit.call.service, stamp, self.world.settings.client_skew, self.world.clock.now())
            self._weather(visit)
        with self.world.clock.lock:
            fired = self.world.clock.fired
            self.world.drain()
            answer = self._act(visit)
            if self._changes(visit.call) or wire.new_backends() or self.world.clock.fired != fired:
                self.world.changed()
            if self.world.dirty and not visit.internal:
                self.after_change()
        return answer

    def _read(self, environ: wire.Environ) -> bytes:
        limit = self.world.settings.max_body_bytes
        stream = environ["wsgi.input"]
        length = environ.get("CONTENT_LENGTH")
        if length and int(length) > limit:
            raise AwsError("EntityTooLarge", f"The sandbox takes bodies of up to {limit} bytes.")
        if not length and environ.get("HTTP_TRANSFER_ENCODING", "").lower() != "chunked":
            return b""
        body: bytes = stream.read(int(length)) if length else stream.read()
        if len(body) > limit:
            raise AwsError("EntityTooLarge", f"The sandbox takes bodies of up to {limit} bytes.")
        if length and len(body) < int(length):
            raise ReplyLost  # the caller was gone before it had said all
        return body

    def _weather(self, visit: _Visit) -> None:
        """Draw a fault: wait, refuse, or note that the reply will be lost."""
        assert visit.call is not None
        assert visit.scope is not None
        fault = self.world.faults.draw(visit.call.service, visit.call.operation, visit.scope.region, internal=visit.internal)
        visit.fault = fault
        if fault is None:
            return
        if fault.delay:
            until = self.world.clock.now() + fault.delay
            while (left := until - self.world.clock.now()) > 0:
                time.sleep(min(left / self.world.clock.rate, 0.05))
        if fault.when == "before" and fault.code:
            raise AwsError(*fault.error(visit.call.service))
        if fault.when == "halt":
            self._hold_while(fault)
            raise ReplyLost

    def _hold_while(self, fault: Fault) -> None:
        """Keep a caller waiting for as long as a rule that halts or holds stands."""
        while fault.when in ("halt", "hold") and self.world.faults.stands(fault):
            time.sleep(_HELD_SECONDS)

    def _act(self, visit: _Visit) -> wire.Answer:
        call, scope = visit.call, visit.scope
        assert call is not None
        assert scope is not None
        context = visit.context = self._context(visit, scope)
        visit.resources = tuple(resources.resources_of(context, call.service, call.operation, call.params))
        if not visit.internal or visit.environ[INTERNAL]:
            self.iam.authorize(context, call, visit.environ, visit.body)
        if call.service != "s3":
            self._check(call)
        if self.world.settings.largest_page and not visit.internal:
            shrink_page(call, self.world.settings.largest_page)
        handler = self.world.registry.owned(call.service, call.operation)
        if handler is not None:
            return self._owned(visit, handler)
        if call.service in self.world.registry.closed:
            raise self._missing(call)
        answer = self._moto(visit)
        if self.world.settings.check_answers and not visit.internal:
            self._hold(visit, call, answer)
        return answer

    def _check(self, call: wire.Call) -> None:
        try:
            validate.check_request(call.params, call.model)
        except AwsError as wrong:
            self.world.journal.refused(call.service, call.operation, wrong.message)
            raise

    def _context(self, visit: _Visit, scope: wire.Scope) -> Context:
        partition = wire.partition_of(scope.region)
        behalf = visit.environ.get(INTERNAL)
        principal = behalf or (
            f"arn:{partition}:iam::{self.world.account}:root" if visit.internal else self.iam.identify(scope, partition, scope.service)
        )
        return Context(
            account=self.world.account,
            region=scope.region,
            partition=partition,
            access_key=scope.access_key,
            principal_arn=principal,
            clock=self.world.clock,
            world=self.world,
            internal=visit.internal,
        )

    def _owned(self, visit: _Visit, handler: OwnedHandler) -> wire.Answer:
        call, context = visit.call, visit.context
        assert call is not None
        assert context is not None
        inner = OwnedInner(lambda: handler(context, **call.params) or {})
        guards = self.world.registry.guards(call.service, call.operation)
        found = Chain(guards, context, call.params, inner).run()
        result = inner.parsed() if found is None else found
        if wrong := validate.check_answer(result, call.model):
            self.world.journal.crashed(call.service, call.operation, f"the answer breaks the service model: {wrong[:5]}", "")
        self._note(visit, call, result)
        return wire.reply(call, result, visit.request_id)

    def _moto(self, visit: _Visit) -> wire.Answer:
        call, scope, context = visit.call, visit.scope, visit.context
        assert call is not None
        assert scope is not None
        assert context is not None

        def ask() -> wire.Answer:
            try:
                return self.moto.ask(scope, context.account, visit.environ, visit.body)
            except wire.NotOffered as error:
                raise self._missing(call) from error

        guards = self.world.registry.guards(call.service, call.operation)
        if not guards:
            return ask()
        inner = Inner(call, ask)
        result = Chain(guards, context, call.params, inner).run()
        return inner.answer() if result is None else wire.reply(call, result, visit.request_id)

    def _hold(self, visit: _Visit, call: wire.Call, answer: wire.Answer) -> None:
        """Hold an answer of moto's against the model, too."""
        if answer.status < 300 and not call.model.has_streaming_output:
            result = wire.parsed(call, answer)
            self._note(visit, call, result)
            wrong = validate.check_answer(result, call.model)
            if wrong:
                self.world.journal.breached(call.service, call.operation, wrong)

    def _note(self, visit: _Visit, call: wire.Call, result: Any) -> None:
        """How a caller reads lists."""
        if not visit.internal and isinstance(result, dict):
            self.world.journal.habits.listed(visit.caller, call.params, result)

    def _missing(self, call: wire.Call) -> AwsError:
        self.world.journal.unsupported(call.service, call.operation)
        return AwsError("NotImplementedInSandbox", f"The sandbox does not offer {call.service}:{call.operation}.")

    def _crashed(self, visit: _Visit, crash: Exception) -> AwsError:
        known = wire.from_moto(crash)
        if known is not None:
            return known
        service = visit.scope.service if visit.scope else "?"
        operation = visit.call.operation if visit.call else visit.environ.get("PATH_INFO", "?")
        self.world.journal.crashed(service, operation, repr(crash), "".join(traceback.format_exception(crash)))
        return AwsError("InternalFailure", f"The sandbox failed on {service}:{operation}: {crash!r}", 500)

    def _refuse(self, visit: _Visit, error: AwsError) -> wire.Answer:
        if visit.call is not None:
            return wire.reply(visit.call, error, visit.request_id)
        return wire.plain_error(visit.scope, visit.environ, error, visit.request_id)

    def _changes(self, call: wire.Call) -> bool:
        return not call.operation.startswith(_READS)

    def _record(self, visit: _Visit, answer: wire.Answer, code: str) -> None:
        call, scope = visit.call, visit.scope
        params = call.params if call else {}
        shape = call.model.input_shape if call else None
        takes, token = client_token(params, shape)
        if takes and not visit.internal:
            self.world.journal.habits.created(visit.caller, token)
        digest = hashlib.sha256(json.dumps(params, sort_keys=True, default=str).encode()).hexdigest()[:16]
        self.world.journal.add(
            Entry(
                seq=visit.seq,
                time=self.world.clock.now(),
                service=scope.service if scope else "?",
                operation=call.operation if call else "?",
                region=scope.region if scope else "",
                principal=visit.context.principal_arn if visit.context else "",
                digest=digest,
                client_token=token,
                error=code or (str(answer.status) if answer.status >= 400 else ""),
                request_id=visit.request_id,
                wall_ms=round((time.perf_counter() - visit.started) * 1000, 3),
                internal=visit.internal,
                agent=visit.caller.agent,
                fault=visit.fault.id if visit.fault else None,
                resources=visit.resources,
                partitions=_partitions(visit),
            )
        )
