"""The program that spark-submit runs: the giscope command, in spark-submit's session."""

from spark_jobs.commands.cli import main

if __name__ == "__main__":
    main()
