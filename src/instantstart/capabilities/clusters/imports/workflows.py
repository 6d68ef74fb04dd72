"""What an import does: the table of contents. Every stage but the first and the last is left out unless it was asked for."""

from __future__ import annotations

from instantstart.base.clock import minutes
from instantstart.capabilities.clusters import stages as clusters
from instantstart.capabilities.clusters.imports import specs, stages
from instantstart.capabilities.vocabulary import subject
from instantstart.operations.declare import Stage, Together, Workflow

_HALF_HOUR = minutes(30)
_MODE = Stage(
    "authentication_mode",
    stages.set_authentication_mode,
    "Set the authentication mode",
    within=_HALF_HOUR,
    typical=60,
    when=lambda spec: bool(spec.set_authentication_mode),
)
_ENTRY = Stage(
    "access_entry",
    stages.make_access_entry,
    "Let our own identity into the cluster",
    within=_HALF_HOUR,
    typical=15,
    when=lambda spec: bool(spec.make_access_entry),
)
_PLUGIN = Stage(
    "network_plugin",
    stages.mend_network_plugin,
    "Mend the network plugin",
    within=_HALF_HOUR,
    typical=60,
    when=lambda spec: bool(spec.update_network_plugin or spec.enable_prefix_delegation),
)
_OIDC = Stage(
    "oidc",
    clusters.make_oidc_provider,
    "Let IAM trust the cluster's service accounts",
    within=_HALF_HOUR,
    typical=5,
    when=lambda spec: bool(spec.install_dependencies),
)
_AGENT = Stage(
    "pod_identity",
    clusters.ask_pod_identity,
    "Ask for the pod identity agent",
    within=_HALF_HOUR,
    typical=10,
    when=lambda spec: bool(spec.install_dependencies),
)
_BUNDLES = Stage(
    "bundles",
    clusters.apply_bundles,
    "Install the HyperPod dependencies that are missing",
    within=_HALF_HOUR,
    typical=15,
    when=lambda spec: bool(spec.install_dependencies),
)
_ROLE = Stage(
    "csi_role",
    clusters.make_s3_csi_role,
    "Make the role of the S3 driver",
    within=_HALF_HOUR,
    typical=5,
    when=lambda spec: bool(spec.install_dependencies),
)
_DRIVER = Stage(
    "s3_csi",
    clusters.ask_s3_csi,
    "Ask for the S3 driver",
    within=_HALF_HOUR,
    typical=10,
    when=lambda spec: bool(spec.install_dependencies),
)
_CERTIFICATES = Stage(
    "cert_manager",
    clusters.ask_cert_manager,
    "Ask for cert-manager",
    within=_HALF_HOUR,
    typical=10,
    when=lambda spec: bool(spec.install_dependencies and spec.cert_manager),
)
_SETTLED = Stage(
    "dependencies",
    clusters.await_dependencies,
    "See every dependency ready",
    within=minutes(45),
    typical=90,
    when=lambda spec: bool(spec.install_dependencies),
)

IMPORT_CLUSTER = Workflow(
    "cluster.import",
    "Import a cluster",
    specs.ImportTarget,
    subject,
    (
        Stage("look", stages.look, "See the cluster", within=_HALF_HOUR, typical=5),
        _MODE,
        _ENTRY,
        _PLUGIN,
        _OIDC,
        Together((_AGENT, _BUNDLES, _ROLE, _CERTIFICATES)),
        _DRIVER,
        _SETTLED,
        Stage("findings", stages.look_again, "Read everything anew", within=_HALF_HOUR, typical=10),
    ),
)

WORKFLOWS = (IMPORT_CLUSTER,)
