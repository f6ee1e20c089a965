"""Errors, paths, secrets, versions and optional packages: what all rooms share."""
