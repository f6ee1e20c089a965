"""Removal of users and of old days: what stays out, where it is found, and units without it."""
