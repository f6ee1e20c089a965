"""The warehouse: where tables lie, how they change, and how they are read.

No other package knows a path of a table. The module `store` explains the terms.
"""
