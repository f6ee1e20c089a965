"""Compares the estimators with the lab's ground truth: `make accuracy`."""
