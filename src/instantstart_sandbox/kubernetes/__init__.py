"""The Kubernetes API server of the sandbox: one per emulated EKS cluster, over HTTPS.

Exact, as far as we know a real server: status codes, reasons, details and most sentences; resourceVersion, generation, uid; writes
that change nothing; lists, pages and watches over one snapshot, bookmarks, both shapes of 410; merge, JSON, strategic and apply
patches with ownership of fields; status and scale; definitions with pruning, defaults and validation; finalizers, propagation,
preconditions; immutable fields; log queries; tokens and their expiry.

Simple: admission webhooks (not called; one without endpoints refuses, one with endpoints allows); quotas without scopes; LimitRanges
(stored only); defaults of the fields that the product, kubectl or a controller reads; the tails of some sentences; RBAC by rules, without
aggregation and escalation checks; Service addresses from one range.

Absent, and refused or without effect: protobuf of custom kinds, and CBOR bodies (415), exec, attach and port-forward (501), conversion
webhooks, OpenAPI v2, metrics.

The way of a request: ``http`` -> ``api`` (who, what, may they) -> ``pipeline`` or ``deletion`` (decode, default, admit, validate, own,
store) -> ``store``. ``cluster`` is what controllers and the kubelet hold. ``server`` runs all clusters in one loop.
"""
