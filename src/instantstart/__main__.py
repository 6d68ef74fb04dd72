"""``python -m instantstart``: the same as the ``instantstart`` command."""

from instantstart.main import cli

if __name__ == "__main__":
    cli()
