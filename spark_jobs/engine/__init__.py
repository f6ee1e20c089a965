"""Who runs the jobs' tasks and the marts' SQL: Spark."""
