"""Floor 1: the only speakers of boto3. Verbs without decisions; every AWS error leaves here as a Problem."""
