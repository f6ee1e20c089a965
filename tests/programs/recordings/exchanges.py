"""What subscribers do, one connection each, and what is written down of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.programs.recordings.network import Network, threads
from tests.programs.recordings.servers import NGINX


class Peer(NamedTuple):
    client: str
    client_port: int
    server: str
    server_port: int


class Seen(NamedTuple):
    """What a client knows of its connection. requests: that it sent whole; responses: final ones
    that it got whole."""

    requests: int
    responses: int
    remark: str = ""


Client = Callable[[Peer], Seen]


class Exchange(NamedTuple):
    """What happens on one connection, of a subscriber who does nothing else."""

    name: str
    client: Client
    port: int = 80
    server: str = NGINX
    remark: str = ""


def carry_out(net: Network, exchanges: Sequence[Exchange], at_once: int) -> list[dict[str, object]]:
    """The truth of them, a row each; their order gives each its mobile."""

    def truth(number: int, exchange: Exchange) -> dict[str, object]:
        peer = Peer(f"10.64.0.{number}", 40_000 + number, exchange.server, exchange.port)
        requests, responses, remark = exchange.client(peer)
        return {
            **peer._asdict(),
            "exchange": exchange.name,
            "requests": requests,
            "responses": responses,
            "one_request_one_response": str(requests == responses == 1).lower(),
            "remark": "; ".join(filter(None, (exchange.remark, remark))),
        }

    with threads(net.mobile, at_once) as pool:
        return list(pool.map(truth, range(1, len(exchanges) + 1), exchanges))
