"""Floor 2: idempotent knowledge that the slices share. Looks first, acts at most once, names what is not ours."""
