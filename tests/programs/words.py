"""Check the words of the repository: `make lint` runs it.

It prints a line for each name that docs/glossary.md retires, for each docstring that says neither
what a function returns nor what it does, and for each link of a page that leads nowhere. The exit
status is 1 if there is one.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
WORDS = {
    re.compile(rf"(?<![a-zA-Z0-9])({pattern})(?![a-zA-Z0-9])", re.IGNORECASE): term
    for pattern, term in RETIRED.items()
}
KEPT = ("docs/glossary.md", "tests/programs/words.py")
"""Files in which retired names stand."""
TITLES = ("What TCP/IP Protocol Headers Can Tell Us",)
"""Titles of sources, which stay as they are."""
OPENINGS = ("What", "Whether", "Of", "Where", "How", "Whose", "As", "Who", "Until")
"""First words of docstrings that say neither what a function returns nor what it does."""
TEXTS = (
    *("*.py", "*.sql", "*.md", "*.jinja", "*.js", "*.yaml", "*.yml", "*.toml", "*.sh", "*.zeek"),
    *("*.cc", "*.h", "*.bif", "Makefile", ":!tests/data", ":!uv.lock"),
)
CODE = ("schemas/*.py", "spark_jobs/*.py", "infra/*.py", "dags/*.py")


def files(*patterns: str) -> Iterator[Path]:
    """Yield the repository's files that match, with those that are not committed yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted({*listed.stdout.splitlines()}):
        if (ROOT / name).is_file():
            yield ROOT / name


def retired_names(text: str) -> Iterator[str]:
    """Yield a finding for each retired name in a text, with its line."""
    for title in TITLES:
        text = text.replace(title, "")
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, term in WORDS.items():
            for match in pattern.finditer(line):
                yield f"{number}: {match[0]!r} is retired: {term}"


def riddles(path: Path) -> Iterator[str]:
    """Yield a finding for each docstring that says neither what is returned nor what is done."""
    texts = [
        statement.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(getattr(node, "body", None), list)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]
    if path.name == "__init__.py" and path.parent.parent.name == "figures":
        if len(texts) != 1 or "?" not in texts[0].value:
            yield "1: a figure's docstring is the question that it answers"
        return
    for text in texts:
        first = text.value.split(maxsplit=1)[:1]
        if first and first[0] in OPENINGS:
            yield f"{text.lineno}: say what it returns or does: {text.value.splitlines()[0]}"


def lost_links(page: Path) -> Iterator[str]:
    """Yield a finding for each link of a page whose file or heading is not in the repository."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", line):
            name, _, section = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            if not there.exists() or (section and section not in anchors(there)):
                yield f"{number}: {target} leads nowhere"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def findings() -> Iterator[str]:
    """Yield a line for each finding, with its file."""
    for path in files(*TEXTS):
        if str(path.relative_to(ROOT)) not in KEPT:
            yield from (f"{path.relative_to(ROOT)}:{f}" for f in retired_names(path.read_text()))
    for path in files(*CODE):
        yield from (f"{path.relative_to(ROOT)}:{found}" for found in riddles(path))
    for path in files("*.md", ":!tests/data"):
        yield from (f"{path.relative_to(ROOT)}:{found}" for found in lost_links(path))


if __name__ == "__main__":
    found = [*findings()]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
