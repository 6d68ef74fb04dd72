"""Scaling by measure: metrics of pods are scraped, Prometheus' language is spoken in part, HPAs and KEDA act on it.

Read ``samples`` (what was scraped), ``promql`` (the language), ``scraper``, ``hpa``, then KEDA: ``scaled_objects``, ``triggers``.
"""
