"""Figures: each will have all of its parts in one folder (SQL, section of the report, charts).

So far the package holds what all figures share: the statistics, for Python and for SQL.
"""
