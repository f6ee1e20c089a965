"""Names that docs/glossary.md retires stay away, and docstrings say what a function does."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

RETIRED = {
    r"resen(d|ds|t|ding)": "retransmission, retransmit",
    r"(sent|sends?|sending) again": "retransmitted, retransmits",
    r"behind Gi": "on the access side",
    r"before Gi": "on the Internet side",
    r"needless(ly)?": "spurious",
    r"under way": "in flight",
    r"(untold|told|tells?(?!\()|telling)": "detect, infer, indicate, report, distinguish",
    r"timers? (goes|go|went|gone|going) off": "RTO expiry",
    r"small[ _]cells?": "suppressed groups",
    r"buckets? of users": "user partition",
    r"\bin_bucket\b|BucketSQLite": "object store",
    r"placed_links": "see docs/glossary.md",
}
"""Pattern of a retired name: the glossary's term for it."""
KEPT = {
    "docs/glossary.md": "names what is retired",
    "CHANGELOG.md": "names what was renamed",
    "tests/test_glossary.py": "this list",
    "schemas/former_names.py": "lists former names of tables and columns",
    "tests/warehouse/test_former_names.py": "tests these",
}
"""Files in which retired names may stand, and why."""
TITLES = ("What TCP/IP Protocol Headers Can Tell Us",)
"""Titles of sources, which stay as they are."""
WORDS = re.compile(
    "|".join(rf"(?P<p{k}>(?<![a-zA-Z0-9])({p})(?![a-zA-Z0-9]))" for k, p in enumerate(RETIRED)),
    re.IGNORECASE,
)
OPENINGS = ("What", "Whether", "Of", "Where", "How", "Whose", "As", "Who", "Until")
"""First words of docstrings that say neither what a function returns nor what it does."""


def files(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()})


TEXTS = files(
    *("*.py", "*.sql", "*.md", "*.jinja", "*.js", "*.yaml", "*.yml", "*.toml", "*.sh", "*.zeek"),
    *("*.cc", "*.h", "*.bif", "Makefile", ":!tests/data", ":!uv.lock"),
)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_retired_name_is_left(path):
    if str(path.relative_to(ROOT)) in KEPT:
        return
    text = path.read_text(encoding="utf-8")
    for title in TITLES:
        text = text.replace(title, "")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}, in the glossary: {term_of(match)}"
        for number, line in enumerate(text.splitlines(), 1)
        for match in WORDS.finditer(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", KEPT)
def test_files_with_exceptions_exist(name):
    assert (ROOT / name).is_file()


def term_of(match: re.Match) -> str:
    (name,) = (name for name, text in match.groupdict().items() if text)
    return list(RETIRED.values())[int(name[1:])]


@pytest.mark.parametrize(
    "name", ["resend", "resent_at", "tail_resend", "lost behind Gi", "told_by"]
)
def test_retired_names_are_found_within_identifiers(name):
    assert WORDS.search(name)


@pytest.mark.parametrize("name", ["present", "representer", "retell", "toldeo", "retransmission"])
def test_other_words_are_not(name):
    assert not WORDS.search(name)


@pytest.mark.parametrize(
    "path",
    files("schemas/*.py", "spark_jobs/*.py", "infra/*.py", "dags/*.py"),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_docstrings_say_what_a_function_returns_or_does(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = [
        statement.value
        for node in ast.walk(tree)
        if isinstance(getattr(node, "body", None), list)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]
    if path.name == "__init__.py" and path.parent.parent.name == "figures":
        [question] = texts
        assert "?" in question.value, "a figure's docstring is the question that it answers"
        return
    riddles = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {text.value.splitlines()[0]}"
        for text in texts
        if text.value.split(maxsplit=1)[:1] and text.value.split(maxsplit=1)[0] in OPENINGS
    ]
    assert not riddles, "\n".join(riddles)
