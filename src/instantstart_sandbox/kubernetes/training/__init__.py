"""The HyperPod training operator: its kind, and the controller that acts while its add-on is there."""
