"""Deployments: models served by containers of ours, vLLM, SGLang or any."""
