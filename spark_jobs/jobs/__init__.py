"""The jobs: each finds its work, calls pure functions, and publishes the results."""
