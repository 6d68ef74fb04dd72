"""HyperPod's inference operator: endpoints become Deployments, load balancers and SageMaker endpoints, while the add-on's pod runs.

Read ``definitions`` (what is served), ``rules`` (what the operator refuses), ``objects`` (what it makes), ``controller`` (the life of an
endpoint). What is simple: docs/kubernetes-fidelity.md.
"""
