"""The captures that were read, and the frames that were skipped."""

import datetime

from schemas import MAX_OPTIONS_CUT_SHARE, SKIP_REASONS
from spark_jobs.figures.format import NOT_MEASURED, PERCENT, count
from spark_jobs.figures.page_elements import NumberTable, Section
from spark_jobs.figures.selection import Selection


def sections(selection: Selection) -> list[Section]:
    """Return captures, frames and packets of each network, and skipped frames by reason.

    Logs that give rows of other tables are not among the captures.
    """
    totals = selection.rows("""
        select network, count(*) as captures, sum(frames)::bigint as frames,
            sum(packets)::bigint as packets, sum(ipv6_packets) / sum(packets) as ipv6,
            min(first_ts) as first_ts, max(last_ts) as last_ts
        from ingest_log where error is null and packets = rows group by network order by network
    """)
    skipped = selection.rows("""
        select network, entry.key as reason, sum(entry.value)::bigint as frames
        from (select network, unnest(map_entries(skipped)) as entry from ingest_log)
        group by all order by all
    """)
    findings = selection.rows(f"""
        select network, count(*) as days, arg_max(finding, value) as finding
        from quality
        where measure = 'options_cut_share' and value > {MAX_OPTIONS_CUT_SHARE}
            or measure in ('shared_share', 'vlan_tuples') and value > 0
            or measure = 'ipv6_share' and contains(finding, ': ')
        group by network, measure order by network, measure
    """)
    rows = [
        [
            row["network"],
            count(row["captures"]),
            count(row["frames"]),
            count(row["packets"]),
            PERCENT.text(row["ipv6"]),
            _time(row["first_ts"]),
            _time(row["last_ts"]),
        ]
        for row in totals
    ]
    tables = [
        NumberTable(
            ["network", "captures", "frames", "packets", "IPv6", "from (UTC)", "to (UTC)"], rows
        )
    ]
    if skipped:
        tables.append(
            NumberTable(
                ["network", "reason", "count", "meaning"],
                [
                    [
                        row["network"],
                        row["reason"],
                        count(row["frames"]),
                        SKIP_REASONS.get(row["reason"], ""),
                    ]
                    for row in skipped
                ],
                "Skipped frames",
            )
        )
    return [
        Section(
            anchor="quality",
            part_heading="The data",
            title="Data quality",
            source="Captures read (table ingest_log)",
            hours="",
            caption="giscope counts every frame of a capture: as a packet, or by the reason to "
            "skip it." + ("" if skipped else " Here, every frame is a packet."),
            samples=f"{count(sum(row['packets'] for row in totals))} packets",
            tables=tables,
            open_tables=True,
            notes=[
                f"{row['network']}, on {row['days']} days: {row['finding']}." for row in findings
            ],
        )
    ]


def _time(time: datetime.datetime | None) -> str:
    """Return a time as text. A network has none if none of its rows is left."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else NOT_MEASURED
