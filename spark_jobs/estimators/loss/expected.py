"""Expected losses on the Internet side, if some left no trace or a capture dropped packets.

A lost retransmission of data that had arrived leaves no trace but in IP IDs that count (see
`id_gaps`). In other connections the share of such losses is known, because a retransmission is lost
with the same probability as any packet. If a share p of a user's packets is lost, then for each
retransmission that Gi saw p / (1 - p) were lost on average. The sender's behaviour shows some of
these (see `internet`).

A capture that drops packets makes gaps in IDs, too. Some gaps in the sequence space were filled by
a retransmission. Others were acknowledged, though Gi never saw their data: those are drops.
"""

import numpy as np

from spark_jobs.estimators.loss.evidence import IP_ID, SKIPPED, TIMEOUT


def without_drops(internet, connections):
    """Return the InternetLosses without the drops of the capture.

    Holes still open are removed for users of whose data the capture dropped some. For these users,
    losses that IP IDs alone show get the probability that they are no drops.
    """
    user, selected = connections.user, connections.starts_in_window
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
    """Return float64[C]: expected number of packets of each connection lost on the Internet side.

    internet: InternetLosses without drops.
    """
    lost, user, selected = internet.losses, connections.user, connections.starts_in_window
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
    # packets lost for each packet that was seen
    odds = sum_by_user(found) / np.maximum(sum_by_user(internet.data_packets), 1)
    not_found = np.maximum(
        sum_by_user(retransmissions) * odds - sum_by_user(found_retransmissions), 0
    )
    return found + retransmissions * (not_found / np.maximum(sum_by_user(retransmissions), 1))[user]
