"""The AWS services that the sandbox answers itself, one package each with ``install(world)``."""
