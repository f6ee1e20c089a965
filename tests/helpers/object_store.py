"""An object store (moto) on loopback, and S3 buckets in it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import boto3
from moto.server import ThreadedMotoServer

NUMBERS = count()


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Start the store; yield the environment variables that a client needs to reach it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    server.stop()


def new_bucket(environment: dict[str, str]) -> str:
    """Make an S3 bucket; return its name."""
    name = f"bucket{next(NUMBERS)}"
    boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    ).create_bucket(Bucket=name)
    return name
