"""The report, and pages of single connections."""
