"""Four studies from captures at Gi alone, beside their papers' figures and the lab's truth.

`make studies` runs giscope on the recordings in tests/data/studies/captures and then `python -m
tests.programs.studies WAREHOUSE`, which prints docs/studies.md; `make record-studies` records them
anew (`tests.programs.lab`).
"""
