"""Training jobs: submitted on HyperPod's operator or KubeRay, followed, explained, ended."""
