"""Keys of users, without a networks file."""

from typing import Any

from spark_jobs.capture.users import AddressPools, UserKeys
from spark_jobs.settings.networks import Subscribers

EVERY_ADDRESS = ("0.0.0.0/0", "::/0")


def keys_of(
    *prefixes: str, network: str = "a", secret: bytes | None = None, **options: Any
) -> UserKeys:
    """The keys of a network with these prefixes, in which each address is a user of its own."""
    subscribers = tuple(
        Subscribers.model_validate({"prefix": prefix, "user": 128 if ":" in prefix else 32})
        for prefix in prefixes or EVERY_ADDRESS
    )
    return UserKeys(network, secret, pools=AddressPools((subscribers,)), **options)
