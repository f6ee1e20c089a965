"""Thin: find the work, call the pure functions, publish."""
