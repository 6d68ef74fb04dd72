"""Who a caller is, whether roles are visible yet, and (on request) what a caller may do."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from moto.iam.models import AccessKey, IAMBackend, iam_backends
from moto.sts.models import sts_backends

from instantstart_sandbox.gateway import managed_policies, policies, resource_tags, resources, signatures, skew, wire
from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

ADMIN_USER = "instantstart-admin"
_ADMIN_POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
_PLAIN_HEADERS = (("content-type", "CONTENT_TYPE"), ("content-length", "CONTENT_LENGTH"))
#: how each service says that a key is not known
_UNKNOWN_KEY = {
    "ec2": ("AuthFailure", "AWS was not able to validate the provided access credentials", 401),
    "s3": ("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", 403),
}
#: the services that speak XML say AccessDenied
_DENIED_CODE = {"ec2": "UnauthorizedOperation"} | dict.fromkeys(("s3", "iam", "sts", "cloudformation"), "AccessDenied")


@dataclass(frozen=True)
class Caller:
    """The owner of an access key. ``session_arn`` is what GetCallerIdentity says; ``arn`` the user's or role's."""

    arn: str
    session_arn: str
    user_id: str
    secret: str
    session_token: str | None = None
    #: seconds since the epoch, virtual; None: the key does not expire
    expires: float | None = None


class Iam:
    """Reads moto's IAM and STS; keeps no state of its own but when it first saw a token."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: signature -> virtual second at which the token would have been signed
        self._tokens: dict[str, float] = {}

    def backend(self, partition: str = "aws") -> IAMBackend:
        """moto's IAM of this account in a partition."""
        found: IAMBackend = iam_backends[self._world.account][partition]
        return found

    def seed(self) -> None:
        """The admin user with its access key, and AWS's managed policies, in every partition that has none yet."""
        keys = self._world.credentials()
        for partition in ("aws", "aws-cn", "aws-us-gov"):
            backend = self.backend(partition)
            managed_policies.seed(backend, partition)
            if ADMIN_USER not in backend.users:
                region = {"aws": self._world.region, "aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}[partition]
                backend.create_user(region, ADMIN_USER)
                backend.put_user_policy(ADMIN_USER, "administrator", _ADMIN_POLICY)
                key: Any = AccessKey(ADMIN_USER, "AKIA", self._world.account)  # type: ignore[abstract]
                key.access_key_id, key.secret_access_key = keys["access_key_id"], keys["secret_access_key"]
                backend.users[ADMIN_USER].access_keys.append(key)
                backend.access_keys[key.access_key_id] = key

    def caller(self, access_key: str, partition: str) -> Caller | None:
        """Who owns an access key; None: nobody."""
        for user in self.backend(partition).users.values():
            for key in user.access_keys:
                if key.access_key_id == access_key and key.status == "Active":
                    return Caller(str(user.arn), str(user.arn), str(user.id), key.secret_access_key)
        for role in sts_backends[self._world.account][partition].assumed_roles:
            if role.access_key_id == access_key:
                expires = role.expiration.timestamp() if role.expiration.tzinfo else role.expiration.replace(tzinfo=_UTC).timestamp()
                return Caller(role.role_arn, role.arn, role.user_id, role.secret_access_key, role.session_token, expires)
        return None

    def identify(self, scope: wire.Scope, partition: str, service: str) -> str:
        """The ARN of the user or role behind an access key; AwsError when there is none."""
        if not scope.access_key:
            return "anonymous"
        found = self.caller(scope.access_key, partition)
        if found is not None:
            if found.expires is not None and found.expires < self._world.clock.now():
                raise AwsError("ExpiredToken", "The security token included in the request is expired", 403)
            return found.arn
        if self._world.settings.accept_unknown_keys:
            return f"arn:{partition}:iam::{self._world.account}:root"
        default = ("InvalidClientTokenId" if service in ("sts", "iam") else "UnrecognizedClientException",)
        raise AwsError(*_UNKNOWN_KEY.get(service, (*default, "The security token included in the request is invalid.", 403)))

    def authorize(self, context: Context, call: wire.Call, environ: wire.Environ, body: bytes) -> None:
        """With enforcement on: the signature holds, and the caller's policies allow the call; else an AwsError."""
        enforced, recorded = self._world.settings.iam_enforcement, self._world.settings.iam_record
        if not (enforced or recorded) or not context.access_key:
            return
        if enforced and not context.internal:
            self._check_signature(context, call.service, environ, body)
        if context.principal_arn.endswith(":root") or (call.service, call.operation) == ("sts", "GetCallerIdentity"):
            return
        documents = self.documents(context.principal_arn) if enforced else []
        by_tag = recorded or any("resourcetag/" in json.dumps(document).lower() for _, document in documents)
        for question in self._questions(context, call, by_tag):
            if recorded:
                self._world.journal.asked(question.action, question.resource, question.context)
            if enforced:
                self._demand(documents, question, context, call.service)

    def _questions(self, context: Context, call: wire.Call, by_tag: bool) -> Iterator[policies.Question]:
        """What IAM is asked about a call: its action on each resource, and each role that is handed to a service."""
        keys = resources.context_of(context, call.service, call.params)
        action = resources.action_of(call.service, call.operation)
        for resource in resources.resources_of(context, call.service, call.operation, call.params):
            tags = resource_tags.keys_of(context, resource) if by_tag else {}
            yield policies.Question(action, resource, keys | tags)
        for role in resources.passed_roles(call.service, call.operation, call.params):
            service = "pods.eks" if call.operation.endswith("PodIdentityAssociation") else call.service
            if role == call.params.get("ClusterRole"):  # the role that managed Karpenter acts by (facts A8.1, A8.3)
                service = "hyperpod.sagemaker"
            yield policies.Question("iam:PassRole", role, keys | {"iam:passedtoservice": [f"{service}.{wire.dns_suffix_of('aws')}"]})

    def _demand(self, documents: list[tuple[str, policies.Document]], question: policies.Question, context: Context, service: str) -> None:
        verdict = policies.decide(documents, question)
        if verdict.decision is policies.Decision.ALLOWED:
            return
        because = (
            "with an explicit deny in an identity-based policy"
            if verdict.decision is policies.Decision.EXPLICIT_DENY
            else f"because no identity-based policy allows the {question.action} action"
        )
        who = context.principal_arn
        on = "" if question.resource == "*" else f" on resource: {question.resource}"
        message = f"User: {who} is not authorized to perform: {question.action}{on} {because}"
        if service == "ec2":
            message = f"You are not authorized to perform this operation. {message}"
        raise AwsError(_DENIED_CODE.get(service, "AccessDeniedException"), message, 403)

    def documents(self, principal_arn: str) -> list[tuple[str, policies.Document]]:
        """The policies of a user (with its groups) or a role: (id, document)."""
        parts = principal_arn.split(":", 5)
        backend, name = self.backend(parts[1]), parts[5].rsplit("/", 1)[-1]
        owners: list[Any] = []
        if parts[5].startswith("user/") and name in backend.users:
            owners = [backend.users[name], *backend.get_groups_for_user(name)]
        elif parts[5].startswith("role/"):
            owners = [role for role in backend.roles.values() if role.arn == principal_arn]
        elif parts[5].startswith("group/") and name in backend.groups:
            owners = [backend.groups[name]]
        found = []
        for owner in owners:
            found += [(inline, policies.parse(text)) for inline, text in owner.policies.items()]
            for managed in owner.managed_policies.values():
                current = next(v for v in managed.versions if v.version_id == managed.default_version_id)
                found.append((managed.name, policies.parse(current.document)))
        return found

    def authorize_request(self, context: Context, service: str, asked: tuple[str, str], sent: tuple[wire.Environ, bytes]) -> None:
        """As ``authorize``, for a request that is no operation of a service model: ``asked`` is (action, resource)."""
        enforced, recorded = self._world.settings.iam_enforcement, self._world.settings.iam_record
        question = policies.Question(*asked, resources.context_of(context, service, {}))
        if recorded:
            self._world.journal.asked(question.action, question.resource, question.context)
        if not enforced:
            return
        self._check_signature(context, service, *sent)
        if not context.principal_arn.endswith(":root"):
            self._demand(self.documents(context.principal_arn), question, context, service)

    def _check_signature(self, context: Context, service: str, environ: wire.Environ, body: bytes) -> None:
        caller = self.caller(context.access_key, context.partition)
        if caller is None:
            return
        headers = {name[5:].lower().replace("_", "-"): str(value) for name, value in environ.items() if name.startswith("HTTP_")}
        headers |= {name: environ[key] for name, key in _PLAIN_HEADERS if key in environ}
        query = environ.get("QUERY_STRING", "")
        claim = signatures.claim_of_header(headers.get("authorization", ""), headers.get("x-amz-date", ""))
        unsigned_body = claim is None and service == "s3"
        claim = claim or signatures.claim_of_query(query)
        hashed = "UNSIGNED-PAYLOAD" if unsigned_body else hashlib.sha256(body).hexdigest()
        path = str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", "/")).split("?", 1)[0]
        signed = signatures.Signed(environ["REQUEST_METHOD"], path, query, headers, headers.get("x-amz-content-sha256") or hashed)
        if claim is None or not signatures.holds(claim, caller.secret, signed):
            code = "AuthFailure" if service == "ec2" else "SignatureDoesNotMatch"
            raise AwsError(code, "The request signature we calculated does not match the signature you provided.", 403)

    def visible(self, role_arn: str) -> bool:
        """Whether other services see the role by now."""
        partition = role_arn.split(":")[1]
        for role in self.backend(partition).roles.values():
            if role.arn == role_arn:
                made: float = role.create_date.replace(tzinfo=_UTC).timestamp()
                return self._world.clock.now() - made >= self._world.settings.iam_delay
        return False

    def verify_presigned(self, url: str, cluster_name: str) -> str | None:
        """See ``World.verify_presigned``. The hosts of AWS and of this sandbox are both accepted: the signature covers them."""
        found = signatures.presigned_get(url, {"x-k8s-aws-id": cluster_name})
        query = parse_qs(urlsplit(url).query)
        if found is None or query.get("Action") != ["GetCallerIdentity"]:
            return None
        claim, signed = found
        if claim.service != "sts" or not {"host", "x-k8s-aws-id"} <= set(claim.signed_headers):
            return None
        with self._world.clock.lock:
            caller = self.caller(claim.access_key, wire.partition_of(claim.region))
            if caller is None or not signatures.holds(claim, caller.secret, signed):
                return None
            if caller.session_token is not None and query.get("X-Amz-Security-Token") != [caller.session_token]:
                return None
            return caller.arn if self._fresh(claim) else None

    def _fresh(self, claim: signatures.Claim) -> bool:
        """AWS gives a token 15 minutes. Clients sign with the wall's time; settings.token_clock says which clock counts."""
        settings, now = self._world.settings, self._world.clock.now()
        try:
            wall_age = time.time() + settings.client_skew - claim.signed_at()
        except ValueError:
            return False
        if wall_age < -skew.SKEW_SECONDS:
            return False
        if len(self._tokens) > 10_000:
            self._tokens.clear()
        virtual_age = now - self._tokens.setdefault(claim.signature, now - max(wall_age, 0.0))
        ages = {"wall": (wall_age,), "virtual": (virtual_age,), "both": (wall_age, virtual_age)}
        return all(age < settings.token_seconds for age in ages.get(settings.token_clock, (wall_age,)))


_UTC = wire.UTC
