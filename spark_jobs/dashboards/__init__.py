"""Superset's pages: datasets, charts, filters and their layout, as values."""
