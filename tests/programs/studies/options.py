"""TCP options in GPRS (Rendón, Casadevall and Faner, Table 2, Figs. 3 to 5)."""

import duckdb
import pandas as pd

from spark_jobs.figures.option_pairs import PAIRS as LABELS
from spark_jobs.figures.retransmissions_by_cause.figure import PAPER
from tests.programs.studies.markdown import mean, number, percent, table

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
            count(*) filter (where cause in ('rto', 'slow_start') and not needed) as spurious_timer,
            count(*) filter (where spurious_rto) as spurious
        from retransmissions group by all
    ),
    known_rows as (
        select network, "user", sport as user_port, server,
            max(total_retrans) as true_retransmissions, max(data_segs_out) as true_sent,
            max(total_rto) as true_rto_expiries
        from true_sender group by all
    )
    select network, sack, timestamps, cells."user", start_ts, goodput, rto_expiries,
        retransmissions, data_packets_down + lost_internet as sent,
        lost_access / data_packets_down as lost,
        coalesce(fast, 0) as fast, coalesce(timer, 0) as timer, coalesce(probe, 0) as probe,
        coalesce(spurious_timer, 0) as spurious_timer, coalesce(spurious, 0) as spurious,
        true_retransmissions, true_sent, true_rto_expiries,
        8 * bytes / ("end" - connected) as true_goodput
    from cells
    left join again using (network, flow_id)
    left join known_rows using (network, "user", user_port, server)
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
        fast, timer = PAPER[LABELS[sack + 2 * timestamps]]
        shares.append(
            (
                name,
                len(pair),
                *(percent(pair[column].sum() / sent) for column in ("lost_packets", "fast")),
                percent(fast),
                percent(pair.timer.sum() / sent),
                percent(timer),
                percent(pair.probe.sum() / sent),
                percent(pair.spurious_timer.sum() / sent),
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
                number(pair.rto_expiries.mean(), 1),
                number(pair.true_rto_expiries.mean(), 1),
                int(pair.spurious.sum()),
                ", ".join(number(each, 1) for each in quantiles),
                number(spread.ratio.iloc[0] if len(spread) else None, 2),
            )
        )
    return SETTING.format(
        words=words,
        shares=table(
            ["", "transfers", "lost on the access side", "data-driven: giscope", "paper",
             "timer-driven: giscope", "paper", "loss probes", "timer-driven and spurious",
             "retransmitted: giscope", "kernel"],
            shares,
        ),
        speeds=table(
            ["", "throughput, kbit/s: giscope", "truth", "gain: giscope", "paper",
             "RTO expiries a transfer: giscope", "kernel", "spurious RTO expiries (F-RTO)",
             "RTO, s: 5th percentile, median, 95th percentile, maximum", "median RTO / RTT"],
            speeds,
        ),
    )  # fmt: skip


def _pair(transfers: pd.DataFrame, sack: bool, timestamps: bool) -> pd.DataFrame:
    pair = transfers[(transfers.sack == sack) & (transfers.timestamps == timestamps)]
    return pair.assign(lost_packets=pair.lost * pair.sent)


TEXT = """\
## TCP options in GPRS

Paper: J. Rendón, F. Casadevall, J. Ll. Faner. Files of 512 KB are sent over four PDCHs with coding
scheme 4. Other users' traffic changes the rate all the time. The radio loses 2.3 % of the packets.
The MSS is 431 B.

- Percentages are of the packets that the server sent.
- *Data-driven*: retransmissions after duplicate ACKs or SACK blocks (cause `fast`).
- *Timer-driven*: retransmissions after an RTO expiry (causes `rto` and `slow_start`).
- Intervals are 95 % confidence intervals.
- The gain is relative to Reno; with both options, it is relative to SACK alone.

As in the paper, Reno retransmits most because its RTO expires, and nearly all of these
retransmissions are spurious. SACK helps; timestamps alone do not. The RTO reaches a minute and
more. Differences:

- *Timer-driven*: a quarter of the paper's share for Reno. The paper's simulator has a timer for
  each segment. After an expiry it retransmits everything from the first lost segment (go back N).
  Linux has one timer and restarts it with each ACK. It stops when the ACKs of the originals come
  (Eifel, D-SACK; in today's stack also F-RTO).
- *Data-driven*: 1.9 to 2.3 %, as many as the radio loses. A lost segment is retransmitted once.
- *With timestamps* the RTO is longer, not shorter, because Linux takes an RTT sample from every ACK
  with and without timestamps.
"""
SETTING = """\
### With {words}

{shares}

{speeds}
"""
