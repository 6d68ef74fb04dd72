"""The managed components of a HyperPod cluster: read, judged, switched one step at a time."""
