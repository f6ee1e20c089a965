"""The summary of the Overview: the report's sentences, of the rows that the filters select."""

import re

import pytest
from markupsafe import Markup

from spark_jobs.dashboards.pages import TABS
from spark_jobs.dashboards.templates import TEMPLATES
from spark_jobs.figures.format import PERCENT
from spark_jobs.figures.metrics.compare import peak_comparisons
from spark_jobs.figures.metrics.labels import SHOWN_METRICS, ShownMetric
from spark_jobs.figures.numbers import DAY_FILTERS_MARK, FILTERS_MARK
from spark_jobs.figures.selection import Selection
from spark_jobs.figures.statistics import Difference
from spark_jobs.figures.summary.dashboard import SUMMARY
from spark_jobs.figures.summary.page import sections
from spark_jobs.report.selection import select


def sentences(selection: Selection, where: str = "true") -> dict[str, str]:
    """What the Overview says with a filter, by its link."""
    sql = SUMMARY.sql
    for mark in (FILTERS_MARK, DAY_FILTERS_MARK):
        assert mark in sql
        sql = sql.replace(mark, f"and ({where})")
    return {row["about"]: row["sentence"] for row in selection.rows(f"{sql} order by place")}


def of_report(selection: Selection) -> dict[str, str]:
    """What the report says, by the text of its link."""
    notes = [
        re.fullmatch(r'<a href="#[^"]+">(.+?)</a>: (.*)', n) for n in sections(selection)[0].notes
    ]
    return {note[1]: str(Markup(note[2]).unescape()) for note in notes}


def test_the_sentences_are_those_of_the_report(demo):
    selection = select(demo.warehouse, None, None, None)
    shown = sentences(selection)
    assert {re.sub("<.*?>", "", about): text for about, text in shown.items()} == of_report(
        selection
    )
    assert len(shown) == 5
    for about in shown:
        assert re.match(r'<a href="#TAB-(.+?)">', about)[1] in TABS


@pytest.mark.parametrize("network", ["aa-gprs", "cc-dialup"])
def test_a_filter_gives_the_sentences_of_a_report_of_that_network(demo, network):
    whole, part = (select(demo.warehouse, names, None, None) for names in (None, [network]))
    shown = sentences(whole, f"network = '{network}'")
    of_part = of_report(part)
    for about, text in shown.items():
        assert text == of_part[re.sub("<.*?>", "", about)]
    assert "bb-gprs" not in " ".join(shown.values())


def test_filters_without_rows_say_what_is_missing(demo):
    shown = sentences(select(demo.warehouse, None, None, None), "network = 'none'")
    assert list(shown.values()) == [
        "no network has both peak and off-peak data.",
        "no data packets in these hours.",
        "the limits of transfers are unknown.",
        "no effect of an option is beyond chance.",
        "0 days held, 0 days without captures, 0 of 0 captures unreadable.",
    ]


def test_the_first_sentence_names_the_differences_that_users_notice_most(demo):
    selection = select(demo.warehouse, None, None, None)
    first = next(iter(sentences(selection).values())).rstrip(".")
    for text in first.split("; "):
        network, named = text.split(": ", 1)
        found = [
            (SHOWN_METRICS[c.metric], c.difference)
            for c in peak_comparisons(selection)
            if c.network.name == network and c.significant
        ]

        def impact(shown: ShownMetric, difference: Difference) -> float:
            """A point of a share, or a per cent of another metric, times the weight."""
            whole = 1 if shown.unit is PERCENT else difference.second
            return shown.weight * abs(difference.estimate / whole)

        def text(shown: ShownMetric, difference: Difference) -> str:
            before = shown.unit.text(difference.second).removesuffix(f"\xa0{shown.unit.name}")
            share = f"{100 * difference.estimate / difference.second:+.0f}\xa0%"
            share = share.replace("-", "\N{MINUS SIGN}")
            return f"{shown.title} {before} → {shown.unit.text(difference.first)} ({share})"

        largest = sorted(found, key=lambda pair: -impact(*pair))[:3]
        assert largest
        assert named == ", ".join(text(*pair) for pair in largest)


def test_filters_of_hours_do_not_reach_rows_without_hours():
    assert "get_filters('hours'" in TEMPLATES[FILTERS_MARK]
    assert "get_filters('hour" not in TEMPLATES[DAY_FILTERS_MARK]
    assert "get_filters('network'" in TEMPLATES[DAY_FILTERS_MARK]
