"""What processes of the tests print."""

import subprocess


def printed_together(workers: list[subprocess.Popen]) -> list[str]:
    """Let processes go on once all are ready; return what they print then."""
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [worker.communicate()[0] for worker in workers]
