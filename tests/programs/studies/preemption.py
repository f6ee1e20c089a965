"""GPRS preempted by circuit-switched calls (Wennström et al., Table I, Figs. 2 to 4)."""

import duckdb

from tests.programs.studies.markdown import number, percent, table
from tests.programs.studies.warehouse import groups, rows

NETWORK = "preemption"
PREEMPTED = {
    3: (21_640.0, 0.0696, 2.911),
    6: (22_200.0, 0.0655, 3.081),
    15: (21_270.0, 0.0703, 3.316),
}
"""By duration of each preemption (s): throughput (bit/s), retransmitted share, mean RTT (s).

Source: the study of preemption, Table I.
"""
PAPER_RESTART = {3: "mobile", 6: "mobile", 15: "server"}

OURS = f"""
    with trips as (
        select flow_id, side, avg(rtt) as rtt,
            max(flight) filter (where ts < start_ts + interval 5 minute) as flight_first,
            max(flight) filter (where ts > start_ts + interval 10 minute) as flight_later
        from rtt_samples join cells using (network, flow_id)
        where network = '{NETWORK}'
        group by all
    ),
    interruptions as (
        select flow_id, count(*) as found, median(recovery) as recovery,
            count(*) filter (where ended_by = 'mobile') as by_mobile,
            count(*) filter (where ended_by = 'server') as by_server,
            count(*) filter (where slow_start) as slow_starts,
            median(lost) as lost
        from stalls where network = '{NETWORK}' and interruption is not null
        group by all
    )
    select cell, cells.flow_id, goodput,
        retransmissions / (data_packets_down + lost_internet) as retransmitted,
        access.rtt + internet.rtt as rtt, access.flight_first, access.flight_later,
        interruptions.* exclude flow_id
    from cells
    left join trips as access on access.flow_id = cells.flow_id and access.side = 'access'
    left join trips as internet on internet.flow_id = cells.flow_id and internet.side = 'internet'
    left join interruptions on interruptions.flow_id = cells.flow_id
    where cells.network = '{NETWORK}'
"""
TRUE = f"""
    with transfers as (
        select "user", "group" as cell, min(start) as start, max("end") as until,
            8 * sum(bytes) / (max("end") - min(connected)) as goodput
        from true_clients where network = '{NETWORK}' group by all
    ),
    kernel as (
        select "user", max(total_retrans) / max(data_segs_out) as retransmitted,
            avg(rtt) / 1e6 as rtt
        from true_sender where network = '{NETWORK}' group by all
    ),
    calls as (
        select "user", count(*) filter (where event = 'preempted') as preemptions,
            count(*) filter (where event = 'resumed_up') as by_mobile,
            count(*) filter (where event = 'resumed_down') as by_server
        from true_events join transfers using ("user")
        where network = '{NETWORK}' and ts between start and until
        group by all
    )
    select * from transfers join kernel using ("user") join calls using ("user")
"""


def section(db: duckdb.DuckDBPyConnection) -> str:
    ours, true = rows(db, OURS), rows(db, TRUE)
    overview, events = [], []
    for cell, group in groups(NETWORK).items():
        assert group.access.preemption
        seconds = int(group.access.preemption.seconds)
        mine, truth = ours[cell], true[cell]
        throughput, retransmitted, round_trip = PREEMPTED[seconds]
        overview.append(
            (
                f"{seconds} s",
                *(number(goodput / 1000) for goodput in (mine["goodput"], truth["goodput"])),
                number(throughput / 1000),
                *(percent(each["retransmitted"]) for each in (mine, truth)),
                percent(retransmitted),
                *(number(1000 * each["rtt"], 0) for each in (mine, truth)),
                number(1000 * round_trip, 0),
            )
        )
        events.append(
            (
                f"{seconds} s",
                f"{mine['found']:.0f} of {truth['preemptions']}",
                f"{mine['by_mobile']:.0f}, {mine['by_server']:.0f}",
                f"{truth['by_mobile']}, {truth['by_server']}",
                PAPER_RESTART[seconds],
                f"{mine['slow_starts']:.0f}",
                number(mine["lost"], 0),
                number(mine["recovery"], 1),
                f"{mine['flight_first'] / 1024:.0f}, {mine['flight_later'] / 1024:.0f}",
                f"`giscope plot {mine['flow_id']}`",
            )
        )
    return TEXT.format(
        overview=table(
            ["preempted for", "throughput, kbit/s: giscope", "truth", "paper",
             "retransmitted: giscope", "truth", "paper",
             "mean RTT, ms: giscope", "truth", "paper"],
            overview,
        ),
        events=table(
            ["preempted for", "interruptions found", "restarted by mobile, server", "truth",
             "paper, typically", "slow starts", "median lost segments", "median recovery, s",
             "maximum in flight, KB: first 5 minutes, after 10 minutes", "plot"],
            events,
        ),
    )  # fmt: skip


TEXT = """\
## GPRS preempted by circuit-switched calls

Paper: A. Wennström, A. Brunstrom, J. Rendón. One bulk transfer of 40 minutes runs over three packet
data channels (PDCHs). Each minute, calls preempt the link for 3, 6 or 15 s. Then the base station
controller loses the segments that it holds, about ten. The sender is Linux with its window of 64
KB, Reno, SACK and timestamps.

{overview}

{events}

As in the paper, the mobile restarts the transfer after 3 and 6 s, with an ACK that it had held.
After 15 s the server restarts it, when its RTO expires. Also as in the paper, a short preemption
costs far more than its own time. Differences:

- *Throughput and recovery after 3 and 6 s*: recovery takes 10 and 13 s, not 20 s. Today's Linux
  repairs ten losses in one recovery of one or two RTTs, by SACK and RACK, and halves its congestion
  window once.
- *RTT*: more data is therefore in flight (27 KB at most; Linux 2.4 had 16 KB), and waits longer.
- *After 15 s*: with longer RTTs, RTOs are longer, too. The first RTO follows from a queue of 64 KB
  and is much longer. This cancels the gain.
- *Mean RTT*: the truth is the kernel's smoothed RTT, read once a second. It counts long RTTs more
  often than giscope, which takes one RTT sample per RTT.
"""
