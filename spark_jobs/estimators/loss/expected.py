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

from spark_jobs.estimators.loss.found import IP_ID, SKIPPED, TIMEOUT


def without_drops(internet, connections):
    """The InternetLosses, but for holes still open of users of whose data the capture dropped
    some; what IDs alone tell of these users has the probability that it is none of the drops."""
    user, mine = connections.user, connections.starts_in_window
    users = user.max(initial=-1) + 1
    dropped = np.bincount(user[mine], internet.unseen[mine], users)
    lost = internet.losses.copy()
    of = user[lost["connection"]]
    by_id = lost["evidence"] == IP_ID
    filled = np.bincount(of, lost["length"] * (lost["filler"] >= 0), users)
    lost["probability"][by_id] *= (filled / np.maximum(filled + dropped, 1))[of][by_id]
    lost["probability"][by_id & (dropped[of] == 0)] = 1.0
    drops = (lost["filler"] < 0) & (dropped[of] > 0) & ~by_id
    return internet._replace(losses=lost[~drops])


def expected_losses(internet, connections):
    """float64[C]: packets of each connection that are expected to have been lost on the Internet side; of
    InternetLosses without drops."""
    lost, user, mine = internet.losses, connections.user, connections.starts_in_window
    count, users = len(user), user.max(initial=-1) + 1
    weight = lost["packets"] * lost["probability"]
    found = np.bincount(lost["connection"], weight, count)
    of_copies = (
        np.isin(lost["evidence"], (SKIPPED, TIMEOUT)) & ~internet.counted[lost["connection"]]
    )
    found_copies = np.bincount(lost["connection"], weight * of_copies, count)

    def of_users(values):
        return np.bincount(user[mine], values[mine], users)

    copies = np.where(internet.counted, 0, internet.copies)
    odds = of_users(found) / np.maximum(of_users(internet.sent), 1)  # lost for each that was seen
    unfound = np.maximum(of_users(copies) * odds - of_users(found_copies), 0)
    return found + copies * (unfound / np.maximum(of_users(copies), 1))[user]
