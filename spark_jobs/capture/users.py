"""Who a subscriber is to giscope: the one place where user keys are made."""

from hashlib import blake2b


def user_key(address: str) -> str:
    """The key under which a subscriber's packets are kept."""
    return address


def subscriber_key(identity: str) -> str:
    """The key of a subscriber whom RADIUS names: by IMSI, calling number or user name."""
    return identity


def user_bucket(key: str, buckets: int) -> int:
    """The bucket of a user: the same on every machine and day, 0 <= bucket < buckets."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") % buckets
