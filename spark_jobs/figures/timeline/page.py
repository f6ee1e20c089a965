"""The last day in five-minute slots, for incidents."""

from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.plots import line, plots_html
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.timeline.numbers import SHOWN, TIMELINE_SQL


def sections(selection: Selection) -> list[Section]:
    """Return the plots of each metric on the last day."""
    by_line: dict[tuple[str, str], tuple[list, list]] = {}
    for row in selection.rows(f"select * from ({TIMELINE_SQL}) order by network, metric, time"):
        if row["date"] == selection.last_day:
            times, values = by_line.setdefault((row["network"], row["metric"]), ([], []))
            times.append(row["time"].isoformat())
            values.append(row["value"])
    traces = [
        (
            place,
            0,
            line(network.name, network.colour, *by_line[network.name, metric], "%{x}: %{y:.4g}")
            | {"mode": "lines+markers", "marker": {"size": 4}, "connectgaps": False},
        )
        for place, metric in enumerate(SHOWN)
        for network in selection.networks
        if (network.name, metric) in by_line
    ]
    return [
        Section(
            anchor="timeline",
            title="The last day in five-minute slots",
            source="Table timeline",
            caption="For incidents. Numbers are 0 in five minutes that a capture covers, and means "
            "of fewer than five connections or three users are left out. Traffic spreads a "
            "connection of more than 100 KiB evenly over its time.",
            samples=f"{selection.last_day} (UTC)",
            figure=plots_html(
                [[shown.axis_title] for shown in SHOWN.values()],
                traces,
                {"type": "date", "tickformat": "%H:%M"},
                [{"rangemode": "tozero"}],
                "Metrics of the last day in five-minute slots",
                90,
            ),
        )
    ]
