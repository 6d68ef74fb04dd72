"""Training: jobs on HyperPod's operator and on KubeRay, recipes, logs, MLflow."""
