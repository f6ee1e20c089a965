"""The estimators' results as the rows of tables: one module for each table."""
