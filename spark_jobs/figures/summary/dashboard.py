"""The key numbers, and five sentences, each with a link to the tab behind it."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, literal
from spark_jobs.figures.summary.key_numbers import ROWS as KEY_NUMBER_ROWS
from spark_jobs.figures.summary.numbers import (
    AT_PEAK,
    DATA,
    LONGEST_LIMITS,
    LOSSES_BY_SIDE,
    OPTIONS,
)

TAB = "overview"
SENTENCES = (
    ("At peak", "peak", AT_PEAK),
    ("Losses", "channel", LOSSES_BY_SIDE),
    ("Limits", "why", LONGEST_LIMITS),
    ("Options", "options", OPTIONS),
    ("Data", "overview", DATA),
)
"""Title of each sentence, the tab of its figures, and its SQL."""
ROWS_SQL = "\nunion all\n".join(
    f"""select {place} as place,
    '<a href="#TAB-{tab}">' || {literal(title)} || '</a>' as about, sentence
from ({sql})"""
    for place, (title, tab, sql) in enumerate(SENTENCES)
)
SUMMARY = Dataset(
    "summary_sentences",
    f"""
select place, about, sentence, network, country, access, null::date as date
from ({ROWS_SQL}), (select network, country, access from networks order by network limit 1)
""",
    [Metric("sentences", "count(*)", "sentences", ",d")],
)
ROWS = [
    *KEY_NUMBER_ROWS,
    [raw_table("Summary", SUMMARY, ["about", "sentence"], order="place", height=40)],
]
