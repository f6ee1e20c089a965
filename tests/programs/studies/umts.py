"""TCP over UMTS in near-ideal conditions (Kohlwes et al., Figs. 1, 2, 4 to 9)."""

import duckdb

from tests.programs.studies.markdown import number, table
from tests.programs.studies.warehouse import groups, rows

NETWORK = "umts"
RATE = 384.0
"""kbit/s, the downlink's."""
NEAR = 15
"""Seconds after a handover in which its longest round trip is looked for."""

IPERF = f"""
    with ours as (
        select cell, sum(goodput) / 1000 as goodput, sum(retransmissions) as retransmissions,
            sum(lost_access) as lost, sum(rto_expiries) as rto_expiries
        from cells where network = '{NETWORK}' and cell like 'MSS %' group by all
    ),
    spurious as (
        select cell, count(*) filter (where spurious_by is not null) as spurious
        from retransmissions join cells using (network, flow_id)
        where network = '{NETWORK}' group by all
    ),
    truth as (
        select "group" as cell, sum(8 * bytes / ("end" - connected)) / 1000 as true_goodput
        from true_clients where network = '{NETWORK}' group by all
    ),
    trips as (
        select cell, quantile_cont(rtt, [0.05, 0.5, 0.95]) as rtt
        from rtt_samples join cells using (network, flow_id)
        where network = '{NETWORK}' and side = 'access' group by all
    )
    select * from ours left join truth using (cell) left join trips using (cell)
    left join spurious using (cell)
"""
MOVING = f"""
    with trips as (
        select "user", epoch(rtt_samples.ts) as ts, rtt
        from rtt_samples join cells using (network, flow_id)
        where network = '{NETWORK}' and cell = 'moving' and side = 'access'
    ),
    rtos as (
        select epoch(ts) as ts, max(rto) as rto from rto_values join cells using (network, flow_id)
        where network = '{NETWORK}' and cell = 'moving' group by all
    ),
    kernel as (
        select t as ts, rto / 1e6 as rto from true_sender join cells using (network, "user")
        where network = '{NETWORK}' and cell = 'moving' and last = 0
    ),
    handover as (
        select round(true_events.ts - epoch(start_ts)) as seconds,
            (select max(rtt) from trips
             where ts between true_events.ts and true_events.ts + {NEAR}) as rtt,
            (select max(rto) from rtos
             where ts between true_events.ts and true_events.ts + {NEAR}) as rto,
            (select max(rto) from kernel
             where ts between true_events.ts and true_events.ts + {NEAR}) as true_rto
        from true_events join cells using (network, "user")
        where network = '{NETWORK}' and event = 'handover'
    )
    select flow_id, goodput / 1000 as goodput, delay_spikes, retransmissions, rto_expiries,
        lost_access,
        (select median(rtt) from trips) as rtt,
        (select list(handover order by seconds) from handover) as handovers,
        (select median(rtos.rto) from kernel asof join rtos
            on kernel.ts >= rtos.ts) as rto,
        (select median(rto) from kernel) as true_rto
    from cells where network = '{NETWORK}' and cell = 'moving'
"""
ALBUMS = f"""
    with found as (
        select cell, count(*) as pages, median(epoch(end_ts - pages.start_ts)) as seconds,
            max(pages.parallel) as parallel
        from pages join (select distinct network, "user", cell from cells) using (network, "user")
        where network = '{NETWORK}' and cell like 'album%' group by all
    ),
    loads as (
        select "group" as cell, "user", load, max("end") - min(start) as seconds
        from true_clients where network = '{NETWORK}' group by all
    ),
    truth as (
        select cell, count(*) as loads, median(seconds) as true_seconds from loads group by all
    )
    select * from found join truth using (cell) order by cell
"""


def section(db: duckdb.DuckDBPyConnection) -> str:
    iperf = rows(db, IPERF)
    windows: dict[tuple[int, int], dict[int, dict]] = {}
    for cell, group in groups(NETWORK).items():
        if cell.startswith("MSS"):
            assert group.mss
            assert group.window_segments
            line = windows.setdefault((group.mss, group.load.connections), {})
            line[group.window_segments] = iperf[cell]
    sizes = sorted({size for line in windows.values() for size in line})
    throughput = [
        (
            f"MSS {mss}, {connections} at a time",
            *(
                f"{number(line[size]['goodput'], 0)} ({number(line[size]['true_goodput'], 0)})"
                for size in sizes
            ),
        )
        for (mss, connections), line in windows.items()
    ]
    trips = [
        (f"MSS {mss}", *(_range(line[size]["rtt"]) for size in sizes))
        for (mss, connections), line in windows.items()
        if connections == 1
    ]
    counted = {
        name: sum(row[name] or 0 for row in iperf.values())
        for name in ("lost", "retransmissions", "rto_expiries", "spurious")
    }
    (moving,) = db.sql(MOVING).df().to_dict("records")
    albums = db.sql(ALBUMS).df().to_dict("records")
    return TEXT.format(
        throughput=table(["window, segments:", *sizes], throughput),
        trips=table(["window, segments:", *sizes], trips),
        **{name: f"{value:.0f}" for name, value in counted.items()},
        ceiling=RATE,
        moving=_moving(moving),
        albums=table(
            ["connections", "albums found", "albums loaded", "median time, s: giscope", "truth"],
            [
                (
                    row["cell"].split(", ")[1],
                    row["pages"],
                    row["loads"],
                    number(row["seconds"]),
                    number(row["true_seconds"]),
                )
                for row in albums
            ],
        ),
    )


def _range(quantiles: list[float]) -> str:
    low, middle, high = (f"{1000 * each:.0f}" for each in quantiles)
    return f"{middle} ({low} to {high})"


def _moving(row: dict) -> str:
    spikes = table(
        ["handover, s after the start", "largest RTT on the access side after it, s",
         "largest RTO, s: giscope", "kernel, once a second"],
        [
            (f"{each['seconds']:.0f}", *(number(each[name]) for name in ("rtt", "rto", "true_rto")))
            for each in row["handovers"]
        ],
    )  # fmt: skip
    return (
        f"{number(row['goodput'], 0)} kbit/s, a median RTT of {number(row['rtt'])} s, "
        f"{row['delay_spikes']:.0f} delay spikes; {row['lost_access']:.0f} packets lost, "
        f"{row['retransmissions']:.0f} retransmitted, {row['rto_expiries']:.0f} RTO expiries; "
        f"median RTO {number(row['rto'])} s, by the kernel {number(row['true_rto'])} s "
        f"(`giscope plot {row['flow_id']}`).\n\n{spikes}"
    )


TEXT = """\
## UMTS in near-ideal conditions

Paper: M. Kohlwes, J. Riihijärvi, P. Mähönen. The downlink has {ceiling:.0f} kbit/s, the uplink 64
kbit/s. RLC, the radio's link layer, retransmits lost blocks. The user is alone in the radio cell.

Throughput by window (Figs. 5 to 7), payload in kbit/s: giscope's value, and the truth in
parentheses:

{throughput}

RTT on the access side (Figs. 8 and 9) of one connection, in ms: the median, and the 5th to 95th
percentile in parentheses:

{trips}

In all these transfers together, {lost} packets were lost and {retransmissions} retransmitted
({spurious} of them spuriously), and {rto_expiries} RTOs expired. In the paper, a mobile at rest
lost no packet, and no retransmission was spurious.

A long transfer in a moving car with two handovers (Figs. 1 and 2): {moving}

A delay spike is counted if an RTT is suddenly twice the usual RTT. In a handover that slows the
link down, the RTT grows with every packet; therefore no RTO expires.

An album of eight pictures over parallel connections (Fig. 4):

{albums}

The paper shows these results as graphs without figures. Its statements hold: a larger window does
no harm; the throughput comes near the link's rate; parallel connections and a larger MSS help if
the window is small; handovers lengthen the RTO, but it does not expire.
"""
