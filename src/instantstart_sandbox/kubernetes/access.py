"""Who may do what: RBAC rules, the EKS access policies, and the texts of 401 and 403."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from instantstart_sandbox.kubernetes.admission import Reader
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.world.seams import Identity

Object = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")
ANONYMOUS: Final = Identity(arn="", username="system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True)
class Attributes:
    """One request as authorization sees it. ``path`` is set for what is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str | None = None
    name: str = ""
    path: str = ""


def _rule(groups: str, resources: str, verbs: Iterable[str]) -> Object:
    return {"apiGroups": ["" if g == "core" else g for g in groups.split()], "resources": resources.split(), "verbs": list(verbs)}


_SUBJECTS_VIEW: Final = (
    "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers serviceaccounts services "
    "services/status "
    "bindings events limitranges namespaces/status pods/log pods/status resourcequotas resourcequotas/status namespaces"
)
_VIEW_RULES: Final = (
    _rule("core", _SUBJECTS_VIEW, _READ),
    _rule("discovery.k8s.io", "endpointslices", _READ),
    _rule(
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale "
        "replicasets/status statefulsets statefulsets/scale statefulsets/status",
        _READ,
    ),
    _rule("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
    _rule("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
    _rule("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
    _rule("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
)
_EDIT_RULES: Final = (
    *_VIEW_RULES,
    _rule("core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", _READ),
    _rule("core", "serviceaccounts", ("impersonate",)),
    _rule("core", "pods pods/attach pods/exec pods/portforward pods/proxy", _WRITE),
    _rule("core", "pods/eviction serviceaccounts/token", ("create",)),
    _rule("core", "configmaps events persistentvolumeclaims secrets serviceaccounts services services/proxy", _WRITE),
    _rule(
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
        _WRITE,
    ),
    _rule("autoscaling", "horizontalpodautoscalers", _WRITE),
    _rule("batch", "cronjobs jobs", _WRITE),
    _rule("networking.k8s.io", "ingresses networkpolicies", _WRITE),
    _rule("policy", "poddisruptionbudgets", _WRITE),
    _rule("coordination.k8s.io", "leases", (*_READ, *_WRITE)),
)
_ADMIN_RULES: Final = (
    *_EDIT_RULES,
    _rule("authorization.k8s.io", "localsubjectaccessreviews", ("create",)),
    _rule(_RBAC, "roles rolebindings", (*_READ, *_WRITE)),
)
_ALL_RULES: Final = (_rule("*", "*", ("*",)), {"nonResourceURLs": ["*"], "verbs": ["*"]})
_DISCOVERY_PATHS: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
)
_PUBLIC_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})

#: name -> rules of the ClusterRoles that every cluster has
BUILT_IN_ROLES: Final[dict[str, tuple[Object, ...]]] = {
    "cluster-admin": _ALL_RULES,
    "admin": _ADMIN_RULES,
    "edit": _EDIT_RULES,
    "view": _VIEW_RULES,
    "system:discovery": ({"nonResourceURLs": list(_DISCOVERY_PATHS), "verbs": ["get"]},),
    "system:public-info-viewer": ({"nonResourceURLs": sorted(_PUBLIC_PATHS), "verbs": ["get"]},),
    "system:basic-user": (
        _rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", ("create",)),
        _rule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
    ),
}
#: (binding, role, groups)
BUILT_IN_BINDINGS: Final = (
    ("cluster-admin", "cluster-admin", (MASTERS,)),
    ("system:discovery", "system:discovery", (AUTHENTICATED,)),
    ("system:basic-user", "system:basic-user", (AUTHENTICATED,)),
    ("system:public-info-viewer", "system:public-info-viewer", (AUTHENTICATED, "system:unauthenticated")),
)
#: EKS access policy -> rules (docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html)
_POLICIES: Final[dict[str, tuple[Object, ...]]] = {
    "AmazonEKSClusterAdminPolicy": _ALL_RULES,
    "AmazonEKSAdminPolicy": _ADMIN_RULES,
    "AmazonEKSAdminViewPolicy": (_rule("*", "*", _READ), {"nonResourceURLs": ["*"], "verbs": ["get"]}),
    "AmazonEKSEditPolicy": _EDIT_RULES,
    "AmazonEKSViewPolicy": _VIEW_RULES,
    "AmazonSagemakerHyperpodClusterPolicy": (
        _rule("core", "nodes pods namespaces", _READ),
        _rule("core", "nodes", ("patch", "update")),
        _rule("core", "pods pods/eviction", ("create", "delete")),
    ),
}


class Authorizer:
    """Decides from the RBAC objects in the store and the access policies of the caller."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def allowed(self, who: Identity, what: Attributes) -> bool:
        """Whether the caller may do this."""
        if MASTERS in who.groups:
            return True
        return any(_rule_allows(rule, what) for rule in self.rules(who, what.namespace))

    def check(self, who: Identity, what: Attributes) -> None:
        """403 with the API server's sentence when it is not allowed."""
        if not self.allowed(who, what):
            raise refusal(who, what)

    def rules(self, who: Identity, namespace: str | None) -> Iterator[Object]:
        """Every rule that speaks for the caller, in a namespace or at the cluster scope."""
        for policy, namespaces in who.policies:
            if not namespaces or (namespace and any(_covers(n, namespace) for n in namespaces)):
                yield from _POLICIES.get(policy, ())
        for binding in self.reader.read_all(f"clusterrolebindings.{_RBAC}"):
            if _binds(binding, who):
                yield from self._role(binding["roleRef"], None)
        if namespace:
            for binding in self.reader.read_all(f"rolebindings.{_RBAC}", namespace):
                if _binds(binding, who):
                    yield from self._role(binding["roleRef"], namespace)

    def _role(self, reference: Object, namespace: str | None) -> list[Object]:
        if reference.get("kind") == "Role":
            found = self.reader.read(f"roles.{_RBAC}", reference["name"], namespace)
        else:
            found = self.reader.read(f"clusterroles.{_RBAC}", reference["name"])
        return list((found or {}).get("rules") or ())


def _covers(pattern: str, namespace: str) -> bool:
    return namespace.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == namespace


def _binds(binding: Object, who: Identity) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == who.username:
            return True
        if kind == "Group" and name in (*who.groups, *(() if who is ANONYMOUS else (AUTHENTICATED,))):
            return True
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or binding["metadata"].get("namespace", "")
            if who.username == f"system:serviceaccount:{namespace}:{name}":
                return True
    return False


def _rule_allows(rule: Object, what: Attributes) -> bool:
    if not {"*", what.verb} & set(rule.get("verbs") or ()):
        return False
    if what.path:
        return any(_path_matches(p, what.path) for p in rule.get("nonResourceURLs") or ())
    resource = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
    wanted = {"*", resource} | ({f"*/{what.subresource}"} if what.subresource else set())
    if not wanted & set(rule.get("resources") or ()) or not {"*", what.group} & set(rule.get("apiGroups") or ()):
        return False
    names = rule.get("resourceNames") or ()
    return not names or what.name in names


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == path


def refusal(who: Identity, what: Attributes) -> ApiError:
    """The 403 of a request."""
    if what.path:
        text = f'forbidden: User "{who.username}" cannot {what.verb} path "{what.path}"'
        return ApiError(403, "Forbidden", text, {})
    qualified = f"{what.resource}.{what.group}" if what.group else what.resource
    subject = f'{qualified} "{what.name}"' if what.name else qualified
    shown = f"{what.resource}/{what.subresource}" if what.subresource else what.resource
    where = f'in the namespace "{what.namespace}"' if what.namespace else "at the cluster scope"
    text = f'{subject} is forbidden: User "{who.username}" cannot {what.verb} resource "{shown}" in API group "{what.group}" {where}'
    details = {"name": what.name, "group": what.group, "kind": what.resource}
    return ApiError(403, "Forbidden", text, {k: v for k, v in details.items() if v})
