"""Compile all functions, unless they are, and print their folder: for wheels and images."""

from spark_jobs.engine.processes import compile_functions
from spark_jobs.sources import compiled_folder

if __name__ == "__main__":
    compile_functions()
    print(compiled_folder())
