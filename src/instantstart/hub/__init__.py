"""Floor 1: the only speaker of the model hub (Hugging Face, or a mirror with the same API)."""
