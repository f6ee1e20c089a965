"""How many downlink packets were lost on the Internet side, where some left no trace, and where a capture
dropped some.

A lost copy of data that nobody missed leaves no trace but in IP IDs that count (see `id_gaps`).
Elsewhere the share of them is known: a copy is lost as any packet is. Of a user who lost a share p
of the packets sent to it, for each copy that Gi saw p / (1 - p) were lost on average; some of these
are found, by what the sender did (see `internet`).

A capture that drops packets makes gaps in IDs, too. Of the gaps in the sequence space some were
filled by a retransmission, others were acknowledged, though Gi never saw what filled them: those are drops.
"""

import numpy as np

from spark_jobs.estimators.loss.evidence import IP_ID, SKIPPED, TIMEOUT


def without_drops(internet, connections):
    """The InternetLosses, but for holes still open of users of whose data the capture dropped
    some; what IDs alone tell of these users has the probability that it is none of the drops."""
    user, selected = connections.user, connections.mine
    user_count = user.max(initial=-1) + 1
    dropped = np.bincount(user[selected], internet.unseen_bytes[selected], user_count)
    lost = internet.losses.copy()
    user_of_loss = user[lost["connection"]]
    by_id = lost["evidence"] == IP_ID
    filled = np.bincount(user_of_loss, lost["length"] * (lost["filler"] >= 0), user_count)
    lost["probability"][by_id] *= (filled / np.maximum(filled + dropped, 1))[user_of_loss][by_id]
    lost["probability"][by_id & (dropped[user_of_loss] == 0)] = 1.0
    drops = (lost["filler"] < 0) & (dropped[user_of_loss] > 0) & ~by_id
    return internet._replace(losses=lost[~drops])


def expected_losses(internet, connections):
    """float64[C]: packets of each connection that are expected to have been lost on the Internet side; of
    InternetLosses without drops."""
    lost, user, selected = internet.losses, connections.user, connections.mine
    count, user_count = len(user), user.max(initial=-1) + 1
    weight = lost["packets"] * lost["probability"]
    found = np.bincount(lost["connection"], weight, count)
    is_retransmission = (
        np.isin(lost["evidence"], (SKIPPED, TIMEOUT)) & ~internet.counted_by_ids[lost["connection"]]
    )
    found_retransmissions = np.bincount(lost["connection"], weight * is_retransmission, count)

    def sum_by_user(values):
        return np.bincount(user[selected], values[selected], user_count)

    retransmissions = np.where(internet.counted_by_ids, 0, internet.retransmissions)
    odds = sum_by_user(found) / np.maximum(
        sum_by_user(internet.data_packets), 1
    )  # lost for each that was seen
    not_found = np.maximum(
        sum_by_user(retransmissions) * odds - sum_by_user(found_retransmissions), 0
    )
    return found + retransmissions * (not_found / np.maximum(sum_by_user(retransmissions), 1))[user]
