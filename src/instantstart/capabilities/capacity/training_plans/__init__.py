"""Training plans: what is reserved, what is offered, and the purchase that only a person approves."""
