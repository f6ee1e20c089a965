"""Five sentences at the top of the Overview, each with a link to the page behind it."""

from spark_jobs.figures.charts import raw_table
from spark_jobs.figures.dashboard_parts import Dataset, Metric, literal
from spark_jobs.figures.summary.numbers import (
    AT_PEAK,
    DATA,
    LONGEST_LIMITS,
    LOSSES_BY_SIDE,
    OPTIONS,
)

PAGE = "giscope-overview"
SENTENCES = (
    ("At peak", "giscope-peak", AT_PEAK),
    ("Losses", "giscope-channel", LOSSES_BY_SIDE),
    ("Limits", "giscope-why", LONGEST_LIMITS),
    ("Options", "giscope-options", OPTIONS),
    ("Data", "giscope-peak", DATA),
)
"""Title of each sentence, the page of its figures, and its SQL."""
ROWS_SQL = "\nunion all\n".join(
    f"""select {place} as place,
    '<a href="/superset/dashboard/{page}/">' || {literal(title)} || '</a>' as about, sentence
from ({sql})"""
    for place, (title, page, sql) in enumerate(SENTENCES)
)
SUMMARY = Dataset(
    "summary_sentences",
    f"""
select place, about, sentence, network, country, access, null::date as date
from ({ROWS_SQL}), (select network, country, access from networks order by network limit 1)
""",
    [Metric("sentences", "count(*)", "sentences", ",d")],
)
ROWS = [[raw_table("Summary", SUMMARY, ["about", "sentence"], order="place", height=40)]]
