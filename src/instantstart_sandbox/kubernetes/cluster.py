"""One emulated EKS cluster: its store, its in-process client, its watches and the seams for controllers and kubelet.

For whoever writes controllers (kubernetes/loops), the kubelet and the bridge: this is the whole interface.

Resources are named ``plural`` or ``plural.group``: ``"pods"``, ``"deployments.apps"``, ``"rayclusters.ray.io"``. Objects are plain
dicts. Everything here runs in the cluster's one asyncio loop; from another thread use ``cluster.in_loop(function, *args)``.

    cluster.arn, cluster.name, cluster.region, cluster.version      strings ("1.34")
    cluster.clock                   world.clock.Clock; ``await cluster.clock.sleep(seconds)``, ``cluster.timestamp()`` -> "2026-11-30T12:00:00Z"
    cluster.aws                     the AwsWorld seam. It may take the AWS side's lock: ``await cluster.ask_aws(cluster.aws.instances, cluster.arn)``
                                    runs it in a thread; never call it straight from the loop
    cluster.data_dir                pathlib.Path of this cluster's files
    cluster.log_path(namespace, pod, container, previous=False) -> Path of a container's log. The kubelet writes lines
                                    ``<RFC3339Nano, virtual UTC> <text>\\n``; the API's log subresource reads, cuts and follows that file
                                    (tailLines, sinceSeconds, timestamps, limitBytes, previous, follow) until the container's status in
                                    the Pod says it is no longer running. ``cluster.logs`` may be replaced by another provider:
                                    async def logs(namespace, pod, container, params: dict[str, str]) -> AsyncIterator[bytes]
    cluster.backend                 None, or an async callable (kind: "pods"|"services", namespace, name, port: str) -> (host, port) | None set by
                                    the kubelet: where the proxy subresource connects to (a pod's process on loopback)

    cluster.client                  user "system:admin"; ``cluster.client.named("kube-scheduler")`` for another field manager (user system:kube-scheduler)
        await get(resource, name, namespace=None) -> dict                         ApiError code 404
        await find(resource, name, namespace=None) -> dict | None
        await list(resource, namespace=None, labels="", fields="") -> list[dict]  selectors as in kubectl: "app=x,tier in (a,b)", "spec.nodeName=n"
        await create(resource, obj) -> dict                                       namespace from obj.metadata; generateName works
        await update(resource, obj) -> dict                                       409 when metadata.resourceVersion is stale
        await apply(resource, obj, force=True) -> dict                            server-side apply; obj carries apiVersion, kind, name
        await patch(resource, name, patch, namespace=None, kind="merge") -> dict  kind: merge | json | strategic
        await status(resource, name, status, namespace=None) -> dict              merge-patches .status through the status subresource
        await replace_status(resource, obj) -> dict                               writes obj.status whole; 409 when resourceVersion is stale
        await scale(resource, name, replicas, namespace=None) -> dict
        await delete(resource, name, namespace=None, propagation="Background", grace=None) -> None     a missing object is not an error
        await event(obj, reason, message, type="Normal", component="...") -> None an Event about obj, repeated ones are counted
      No-op writes make no revision. Every other refusal is ApiError (code, reason, message) from kubernetes/errors.py.

    cluster.read(resource, name, namespace=None) -> dict | None                   synchronous and thread-safe: the present object
    cluster.read_all(resource, namespace=None) -> list[dict]                      the same for a whole resource or namespace
    cluster.store.owned_by(uid) / find_uid(uid)                                   owner index for garbage collection: (collection, key) pairs
    async for type, obj in cluster.watch("pods", namespace=None):                 ADDED of all that exists, then changes, for ever;
                                                                                  type ADDED | MODIFIED | DELETED. Waits for a CRD not there yet
    cluster.start(coroutine, name="") -> asyncio.Task                             cancelled when the cluster is deleted or the server stops;
                                                                                  a crash is logged and counted in cluster.crashes
    cluster.on_nudge(callback)                                                    called in the loop when AWS says that instances, add-ons or
                                                                                  access entries changed
    cluster.on_stop(callback)                                                     called in the loop at the end (kill the pods' processes)

What the API server itself does (do not do it in a controller): defaults, names, uid, generation; clusterIP and nodePort of Services;
default tolerations, priority, service account and its token volume of Pods; ``default`` ServiceAccount and kube-root-ca.crt of a new
namespace; CRDs become Established; ServiceAccount tokens. A Pod with a nodeName that is deleted gets a deletionTimestamp and stays until
the kubelet deletes it with ``grace=0``; one without a node goes at once.
What it leaves to loops: garbage collection by ownerReferences (the finalizers ``foregroundDeletion`` and ``orphan`` are set here, acted on
and removed by the loop), emptying a Terminating namespace and then removing ``kubernetes`` from its spec.finalizers
(``await client.finalize(name)``), and emptying the custom resources of a CRD under deletion (finalizer
``customresourcecleanup.apiextensions.k8s.io``).
"""
