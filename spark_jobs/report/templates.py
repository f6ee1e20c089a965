"""Templates of the pages, and scripts to embed in them."""

import gzip
from base64 import b64encode
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from plotly.offline import get_plotlyjs_version

from spark_jobs.base.sources import giscope_version
from spark_jobs.figures.format import INTERVALS


@cache
def templates() -> Environment:
    """Return the Jinja environment with the pages' templates."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.globals |= {"version": giscope_version(), "intervals": INTERVALS}
    return environment


def shared_script_name() -> str:
    """Return the file name of Plotly's script that pages in one folder share."""
    return f"plotly-{get_plotlyjs_version()}.min.js"


def compressed(script: str) -> str:
    """Return a script compressed by gzip, in base64, so that a page can embed it.

    Compression level 9 takes twice as long as 6 and saves a fifth of a per cent.
    """
    return b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()
