"""Tools for served models: endpoints, deployments, pools, routers, autoscalers."""

from __future__ import annotations

from instantstart.faces.mcp.tool import Area, Shape, begins, changes, reads, removes

TOOLS = (
    reads("served_model_list", "List everything that serves a model, both paths and of others; why not ready.", Area.inference),
    reads("served_model_get", "Show one served model: replicas, why not ready, events.", Area.inference),
    reads("served_model_metrics", "Show requests, queue, cache use, tokens a second of a served model.", Area.inference),
    changes(
        "model_call",
        "Ask a served model: chat, completion, embeddings or any JSON. It answers text, latency and tokens a second.",
        Area.inference,
        "served_model_get",
        Shape.model_answer,
    ),
    reads("inference_endpoint_list", "List managed endpoints with replicas and why one is not ready.", Area.inference),
    reads("inference_endpoint_get", "Show one endpoint: each link up to its callers, settings, events.", Area.inference),
    begins(
        "inference_endpoint_create",
        "Serve a model by the inference operator. Look at dry_run=true first. It ends when the model has answered.",
        Area.inference,
    ),
    begins(
        "inference_endpoint_update", "Change an endpoint; what is left out stays. A silent rollback is told as a failure.", Area.inference
    ),
    removes("inference_endpoint_delete", "End an endpoint.", Area.inference),
    reads("model_deployment_list", "List self-managed deployments with pods, why not ready, address.", Area.inference),
    reads("model_deployment_get", "Show one deployment: how it was asked, argv, pods, why not ready and what to do.", Area.inference),
    begins(
        "model_deployment_create",
        "Serve a model by a container (vLLM, SGLang, any). Look at dry_run=true first: argv and findings. Internet-facing: its "
        "plan has an approval, pass that; a person must agree. It ends when the model has answered.",
        Area.inference,
    ),
    begins("model_deployment_update", "Change a deployment; what is left out stays. dry_run=true shows each difference.", Area.inference),
    begins("model_deployment_scale", "Set a deployment's pods. Refused while an autoscaler owns them.", Area.inference),
    removes(
        "model_deployment_delete",
        "Delete a deployment.",
        Area.inference,
    ),
    reads("model_pool_list", "List pools of warm workers: whom each works for, bindings, what is amiss.", Area.inference),
    reads("model_pool_get", "Show one pool: workers, bindings, how it was asked.", Area.inference),
    begins("model_pool_create", "Make a pool of warm workers of one model, all free. Look at dry_run=true first.", Area.inference),
    begins("model_pool_scale", "Set a pool's workers; only free ones go.", Area.inference),
    removes(
        "model_pool_delete",
        "Delete a pool nobody is bound to.",
        Area.inference,
    ),
    changes(
        "model_pool_assign",
        "Give a ready worker to a business, at once. Refused when it works for another than expected.",
        Area.inference,
        "model_pool_get",
    ),
    changes("model_pool_release", "Take a worker back from a business, at once.", Area.inference, "model_pool_get"),
    begins("model_binding_create", "Make the Service of a business, with free workers of a pool.", Area.inference),
    removes(
        "model_binding_delete",
        "Take a business off a pool.",
        Area.inference,
    ),
    reads("sglang_router_list", "List routers: workers each knows, misses, still has.", Area.inference),
    reads("sglang_router_get", "Show one router, and why it is not ready.", Area.inference),
    begins("sglang_router_create", "Make the SGLang router of one deployment or business. Look at dry_run=true first.", Area.inference),
    removes(
        "sglang_router_delete",
        "Delete a router; its workers stay.",
        Area.inference,
    ),
    reads("autoscaler_list", "List autoscalers of anybody: target, bounds, query, why one does not work.", Area.inference),
    reads("autoscaler_get", "Show the autoscaler of one deployment or pool.", Area.inference),
    begins(
        "autoscaler_create", "Let KEDA scale a deployment or pool. dry_run=true shows the query and what it answers now.", Area.inference
    ),
    removes(
        "autoscaler_delete",
        "Stop scaling by load; pods stay.",
        Area.inference,
    ),
)
