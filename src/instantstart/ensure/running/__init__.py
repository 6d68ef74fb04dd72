"""What runs on nodes, as which pods, and why one does not run: one sentence, its evidence, the next step."""
