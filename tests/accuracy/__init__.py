"""How near the estimators come to the lab's ground truth: `make accuracy`."""
