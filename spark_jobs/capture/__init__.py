"""Capture files to packet columns."""
