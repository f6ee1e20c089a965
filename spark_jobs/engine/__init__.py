"""The engine that runs the jobs' tasks: processes of this machine, or Spark."""
