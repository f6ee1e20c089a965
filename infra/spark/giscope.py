"""What spark-submit runs: the giscope command, in the session that spark-submit made."""

from spark_jobs.cli import main

if __name__ == "__main__":
    main()
