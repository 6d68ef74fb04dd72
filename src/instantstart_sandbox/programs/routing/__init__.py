"""The small stand-in of SGLang's router: workers found through the Kubernetes API, policies, retries, its own metrics.

``arguments`` (its flags), ``discovery`` (the watch), ``pool`` (workers and their health), ``policies`` (who gets a request), ``forwarding``
(one request and its answer), ``gauges`` (metrics under the router's old and new names). Only the standard library is used.
"""
