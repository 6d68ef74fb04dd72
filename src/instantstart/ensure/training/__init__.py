"""Training jobs as their objects tell them, and the recipes that their containers run."""
