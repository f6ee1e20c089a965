"""The search for the likeliest history of a receiver, by itself."""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.loss import search
from spark_jobs.estimators.loss.link import PATH
from spark_jobs.estimators.loss.observation import connection_observation, read_user
from tests.helpers.packet_script import Packet, partition
from tests.helpers.replies import MS, SECOND
from tests.helpers.segments import RTT_US, acked, sent, started, user_seen_at

T = 30 * SECOND


@compiled
def likeliest(segments, connections, packets, path, original):
    """(cost, how much of it is odd, bool[n] lost) of a user's first connection."""
    exchanges = read_user(segments, connections, packets, original)
    exchange = connection_observation(exchanges, 0, segments.sack_edges, connections.sack[0])
    for k in range(len(exchange.transmissions)):
        exchange.transmissions[k].floor, exchange.transmissions[k].ceiling = -np.inf, np.inf
    lost = np.zeros(len(exchange.transmissions), np.bool_)
    plan = search._plan(exchange, path[0], 2 * np.int64(path[0].base_rtt))
    cost, odd = search._search(exchange, path[0], plan, search.workspace(), search.BEAM, lost)
    return cost, odd, lost


def found(lines: list[Packet]) -> tuple[float, float, list[bool]]:
    """What the search finds, of a connection on an idle link."""
    made = partition([*lines, *user_seen_at(lines[-1].us + 60 * SECOND)])
    path = np.zeros(1, PATH)
    path["base_rtt"], path["loss_cost"] = RTT_US, 3.9
    original = np.full(len(made.segments.ts), -1)
    cost, odd, lost = likeliest(made.segments, made.connections, made.packets, path, original)
    return cost, odd, lost.tolist()


def test_undisputed_segments_after_the_last_open_one_add_no_cost():
    """d4 comes twice, and the mobile answers twice; d5 to d24 leave nothing open. If the search
    took their ACKs but not their arrival into account, the hypothesis would be as odd as if the
    search had failed, and it would be repeated with more hypotheses."""
    retransmission = sent(T + 1000 * MS, 4)
    open_case = [*started(), sent(T, 4), acked(T + 800 * MS, 4), retransmission]
    open_case.append(acked(retransmission.us + RTT_US, 4))
    after = [
        p
        for n in range(5, 25)
        for p in (sent(n * 10 * SECOND, n), acked(n * 10 * SECOND + RTT_US, n))
    ]
    cost, odd, lost = found(open_case)
    assert odd < search.MAX_UNEXPLAINED_COST
    assert found([*open_case, *after]) == (cost, odd, [*lost, *[False] * 20])
