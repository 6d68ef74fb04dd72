"""What every emulated service shares: the virtual clock, the seams between AWS and Kubernetes, saved state."""
