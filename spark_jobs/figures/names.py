"""Labels, colours and thresholds that several figures share."""

ACCESS_NAMES = {"gprs": "GPRS", "edge": "EDGE", "umts": "UMTS", "lte": "LTE", "dialup": "dial-up"}
"""Access technologies in words; others appear as the networks file spells them."""
PERIODS = {
    "peak": ("peak", "solid"),
    "off_peak": ("off-peak", "dash"),
    "all": ("all hours", "longdash"),
    "other": ("other", "dot"),
}
"""By period: label, and Plotly's dash style of its lines."""
HOURS_SQL = (
    "case period when 'off_peak' then 'off-peak' when 'all' then 'all hours' else period end"
)
"""SQL of the label in PERIODS of a mart's column `period`."""
PEAK_HOURS_SQL = """case when peak_from is null then 'no peak hours' else
    format('peak: {} to {} h', peak_from, peak_until)
    || coalesce(format(', off-peak: {} to {} h', off_peak_from, off_peak_until), '') end"""
"""SQL of a row of peak_hours in words."""
NETWORK_COLOURS = (
    "#0067a3", "#b84f00", "#00795a", "#a8457f", "#7d6200", "#5b3fa0", "#444444", "#8c1c2e",
    "#3f7f00", "#007a87",
)  # fmt: skip
"""Colours of the networks, which are sorted by name; the eleventh network has the first colour.

The first are by Okabe and Ito for readers with any colour vision, darkened so that text in them is
readable.
"""
LIGHT_COLOURS = (
    "#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00",
    "#bbbbbb",
)  # fmt: skip
"""Tol's light colours: colour-blind readers can distinguish them; dark text is legible on them."""
MUTED_COLOURS = ("#332288", "#cc6677", "#117733", "#ddaa33", "#44aa99", "#666666")
"""Tol's muted colours."""
SHOWN_BINS = 100
"""Number of bins that hold 99 % of a histogram of rates."""
PLOTS = "plots"
"""Folder of the pages of the report's examples, beside the report."""
SERVE_PORT = 8765
"""Port of `giscope serve`, unless it is given another one."""


def paler(colour: str, share: float) -> str:
    """Return a colour that is mixed with this share of white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (255 - part)):02x}" for part in parts)


def with_spaces(name: str) -> str:
    """Return the name of a class in a table, such as 'packet_delay', as a label."""
    return name.replace("_", " ")


def access_name(access: str) -> str:
    """Return an access technology in words."""
    return ACCESS_NAMES.get(access, access)


def plot_file_name(flow_id: int) -> str:
    """Return the file name of a connection's page."""
    return f"flow-{flow_id}.html"
