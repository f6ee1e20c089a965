"""TCP options in GPRS (Rendón, Casadevall and Faner, Table 2, Figs. 3 to 5)."""

import duckdb
import pandas as pd

from spark_jobs.report import paper, retransmissions
from tests.studies.markdown import mean, number, percent, table

NETWORKS = {"options-classic": "a stack as of 2001", "options-today": "a stack of today"}
PAIRS = {
    (False, False): "Reno",
    (True, False): "with SACK",
    (False, True): "with timestamps",
    (True, True): "with both",
}
PAPER_GAINS = {"with SACK": 0.0909, "with timestamps": -0.0385, "with both": -0.0688}
"""Of the throughput, against Reno's; with both: against SACK alone (Section IV)."""

TRANSFERS = """
    with again as (
        select network, flow_id,
            count(*) filter (where cause = 'fast') as fast,
            count(*) filter (where cause in ('rto', 'slow_start')) as timer,
            count(*) filter (where cause = 'tlp' and not new_data) as probe,
            count(*) filter (where cause in ('rto', 'slow_start') and needed = false) as needless,
            count(*) filter (where spurious_rto) as spurious
        from retransmissions group by all
    ),
    told as (
        select network, "user", sport as user_port, server,
            max(total_retrans) as true_retransmissions, max(data_segs_out) as true_sent,
            max(total_rto) as true_timeouts
        from true_sender group by all
    )
    select network, sack, timestamps, cells."user", start_ts, goodput, timeouts, retransmissions,
        data_packets_down + lost_internet as sent,
        lost_access / data_packets_down as lost,
        coalesce(fast, 0) as fast, coalesce(timer, 0) as timer, coalesce(probe, 0) as probe,
        coalesce(needless, 0) as needless, coalesce(spurious, 0) as spurious,
        true_retransmissions, true_sent, true_timeouts,
        8 * bytes / ("end" - connected) as true_goodput
    from cells
    left join again using (network, flow_id)
    left join told using (network, "user", user_port, server)
    left join true_clients on true_clients.network = cells.network
        and true_clients."user" = cells."user" and true_clients.port = cells.user_port
    where cells.network in ('options-classic', 'options-today') and result = 'ok'
"""
RTO = """
    with trips as (
        select network, flow_id, median(rtt) as rtt from rtt_samples
        where side = 'access' group by all
    ),
    kept as (
        select network, flow_id, ts, max(rto) as rto from rto_values group by all
    )
    select network, sack, timestamps,
        quantile_cont(rto, [0.05, 0.5, 0.95, 1.0]) as rto, median(rto / rtt) as ratio
    from kept join cells using (network, flow_id) left join trips using (network, flow_id)
    where network in ('options-classic', 'options-today')
    group by all
"""


def section(db: duckdb.DuckDBPyConnection) -> str:
    transfers, rto = db.sql(TRANSFERS).df(), db.sql(RTO).df()
    parts = [_setting(transfers, rto, network, words) for network, words in NETWORKS.items()]
    return TEXT + "\n" + "\n".join(parts)


def _setting(transfers: pd.DataFrame, rto: pd.DataFrame, network: str, words: str) -> str:
    shares, speeds = [], []
    of_network = transfers[transfers.network == network]
    reno, sack_alone = (_pair(of_network, on, False).goodput.mean() for on in (False, True))
    for (sack, timestamps), name in PAIRS.items():
        pair = _pair(of_network, sack, timestamps)
        sent, true_sent = pair.sent.sum(), pair.true_sent.sum()
        fast, timer = paper.RETRANSMISSIONS[retransmissions.OPTION_PAIRS[sack, timestamps]]
        shares.append(
            (
                name,
                len(pair),
                *(percent(pair[column].sum() / sent) for column in ("lost_packets", "fast")),
                percent(fast),
                percent(pair.timer.sum() / sent),
                percent(timer),
                percent(pair.probe.sum() / sent),
                percent(pair.needless.sum() / sent),
                percent(pair.retransmissions.sum() / sent),
                percent(pair.true_retransmissions.sum() / true_sent),
            )
        )
        spread = rto[(rto.network == network) & (rto.sack == sack) & (rto.timestamps == timestamps)]
        quantiles = list(spread.rto.iloc[0]) if len(spread) else [None] * 4
        speeds.append(
            (
                name,
                mean(list(pair.goodput / 1000)),
                mean(list(pair.true_goodput / 1000)),
                percent(pair.goodput.mean() / (sack_alone if sack and timestamps else reno) - 1, 1),
                percent(PAPER_GAINS.get(name), 1),
                number(pair.timeouts.mean(), 1),
                number(pair.true_timeouts.mean(), 1),
                int(pair.spurious.sum()),
                ", ".join(number(each, 1) for each in quantiles),
                number(spread.ratio.iloc[0] if len(spread) else None, 2),
            )
        )
    return SETTING.format(
        words=words,
        shares=table(
            ["", "transfers", "lost on the access side", "data-driven: giscope", "paper",
             "timer-driven: giscope", "paper", "probes", "of the timer's, needless",
             "retransmitted: giscope", "kernel"],
            shares,
        ),
        speeds=table(
            ["", "throughput, kbit/s: giscope", "truth", "gain: giscope", "paper",
             "timeouts a transfer: giscope", "kernel", "spurious (F-RTO)",
             "RTO, s: 5 %, median, 95 %, most", "median RTO over round trip"],
            speeds,
        ),
    )  # fmt: skip


def _pair(transfers: pd.DataFrame, sack: bool, timestamps: bool) -> pd.DataFrame:
    pair = transfers[(transfers.sack == sack) & (transfers.timestamps == timestamps)]
    return pair.assign(lost_packets=pair.lost * pair.sent)


TEXT = """\
## TCP options in GPRS

J. Rendón, F. Casadevall, J. Ll. Faner. Files of 512 KB over four PDCHs with CS-4 whose rate
others' traffic changes all the time; 2.3 % of the packets are lost on the air; MSS 431. Shares
are of the packets that the server sent. The intervals are of 95 %; the gain is against Reno, that
of both options against SACK alone.

As in the paper, Reno sends most again because its timer goes off, and nearly all of that
without need; SACK helps, timestamps alone do not, and the RTO reaches a minute and more. Where
the figures differ:

- *Timer-driven*: a quarter of the paper's for Reno. Its simulator has a timer for each segment,
  and sends on from the first lost one (go back N); Linux has one, restarts it with each ACK,
  and stops when the ACKs of the originals come (Eifel, D-SACK; F-RTO in a stack of today).
- *Data-driven*: 2.0 to 2.3 %, as many as the radio loses: a segment that is lost is retransmitted
  once.
- *With timestamps* the RTO is longer, not shorter: Linux takes a sample from every ACK either
  way.
"""
SETTING = """\
### With {words}

{shares}

{speeds}
"""
