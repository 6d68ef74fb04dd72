"""Diagnosis: evidence gathered in one call, ranked causes, next steps. It changes nothing."""
