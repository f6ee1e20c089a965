"""Superset's dashboards: the charts of the figures, and the files that Superset imports."""
