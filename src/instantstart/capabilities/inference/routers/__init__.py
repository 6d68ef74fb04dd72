"""Routers: one SGLang router before the workers of one deployment, pool or business."""
