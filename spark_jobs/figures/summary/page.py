"""The first section of the report: five sentences, each with a link to the section behind it."""

from markupsafe import Markup

from spark_jobs.figures.daily_checks.numbers import DAYS_SQL
from spark_jobs.figures.format import PERCENT, count
from spark_jobs.figures.limits_by_window.numbers import LIMIT_LABELS, TIMES
from spark_jobs.figures.metrics.compare import peak_comparisons
from spark_jobs.figures.metrics.labels import SHOWN_METRICS
from spark_jobs.figures.names import access_name
from spark_jobs.figures.page_elements import Section
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.table2_loss.numbers import NUMBERS as LOSSES
from spark_jobs.figures.table3_clusters.page import option_effects

MAX_DIFFERENCES = 3
"""Maximum number of differences of a network that the first sentence names: the largest."""


def sections(selection: Selection) -> list[Section]:
    """Return the summary."""
    sentences = (
        ("compare", "At peak", _at_peak(selection)),
        ("table2", "Losses", _losses(selection)),
        ("limits", "Limits", _limits(selection)),
        (_options_anchor(selection), "Options", _options(selection)),
        ("state", "Data", _data(selection)),
    )
    return [
        Section(
            anchor="summary",
            title="Summary",
            source="The sections that the links open",
            caption="At peak: each network's largest differences from off-peak that are beyond "
            "chance, in % of the off-peak value. Losses: shares of the data packets. Limits: what "
            "held transfers back for the longest time. Options: effects on goodput that are beyond "
            "chance, after adjustment. Data: what is missing.",
            samples=f"{count(len(selection.networks))} networks",
            notes=[
                Markup('<a href="#{}">{}</a>: {}').format(anchor, title, sentence)
                for anchor, title, sentence in sentences
            ],
        )
    ]


def _at_peak(selection: Selection) -> str:
    """Return each network's largest differences beyond chance, in % of the off-peak value."""
    found = peak_comparisons(selection)
    texts = []
    for network in selection.networks:
        compared = [c for c in found if c.network is network and c.difference.second]
        beyond = sorted(
            (
                ((c.difference.estimate or 0) / (c.difference.second or 1), c.metric)
                for c in compared
                if c.significant
            ),
            key=lambda item: -abs(item[0]),
        )
        named = ", ".join(
            f"{SHOWN_METRICS[metric].title} {PERCENT.change(share)}"
            for share, metric in beyond[:MAX_DIFFERENCES]
        )
        if compared:
            texts.append(f"{network.name}: {named or 'no difference beyond chance'}")
    return "; ".join(texts) + "." if texts else "no network has both peak and off-peak data."


def _losses(selection: Selection) -> str:
    rows = LOSSES.rows(selection, "network")
    return (
        "; ".join(
            f"{row['network']}: {row.value_text('access_loss')} on the access side, "
            f"{row.value_text('internet_loss')} on the Internet side"
            for row in rows
        )
        + "."
    )


def _limits(selection: Selection) -> str:
    """Return the longest limit of each network's transfers, with its share of the time."""
    texts = []
    for row in TIMES.rows(selection, "network"):
        shares = {limit: row[limit].value for limit in LIMIT_LABELS}
        if None not in shares.values():
            longest = max(shares, key=lambda limit: shares[limit])
            share = PERCENT.text(shares[longest], 0)
            texts.append(f"{row['network']}: {LIMIT_LABELS[longest]} ({share} of the time)")
    return "; ".join(texts) + "." if texts else "the limits of transfers are unknown."


def _options_anchor(selection: Selection) -> str:
    """Return the anchor of the first Table III, or of the summary if there is none."""
    return next((f"table3-{access}" for access in option_effects(selection)), "summary")


def _options(selection: Selection) -> str:
    """Return the options whose adjusted effect is beyond chance, by access technology."""
    texts = [
        f"{access_name(access)}: {effect['comparison']} "
        f"{PERCENT.change(effect['estimate'])} goodput"
        for access, effects in option_effects(selection).items()
        for effect in effects
        if effect["significant"]
    ]
    return "; ".join(texts) + "." if texts else "no effect of an option is beyond chance."


def _data(selection: Selection) -> str:
    """Return the numbers of days and captures that are missing or doubtful."""
    names = ", ".join(f"'{network.name}'" for network in selection.networks)
    [days] = selection.rows(f"""
        select count(*) filter (where held) as held,
            count(*) filter (where state = 'no captures') as missing
        from ({DAYS_SQL}) where network in ({names})
    """)
    [captures] = selection.rows("""
        select count(*) as captures, count(*) filter (where error is not null) as failed
        from ingest_log
    """)
    return (
        f"{count(days['held'])} days held, {count(days['missing'])} days without captures, "
        f"{count(captures['failed'])} of {count(captures['captures'])} captures unreadable."
    )
