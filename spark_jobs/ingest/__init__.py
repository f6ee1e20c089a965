"""The way in: from a landed file to published rows.

In the order of the way: files.py finds captures and logs; plan.py chooses which of them are read;
read.py reads one, by the functions of capture/, and stages its rows; publish.py publishes these.
job.py puts them together. leases.py makes the leases of users from the accounting that was read.
"""
