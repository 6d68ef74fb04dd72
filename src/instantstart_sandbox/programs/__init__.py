"""Stand-ins for programs of container images. Each file is run by itself, with the pods' interpreter: it imports nothing of ours."""
