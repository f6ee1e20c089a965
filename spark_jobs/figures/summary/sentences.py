"""The summary's sentence that needs more than SQL; Superset's environment imports this module."""

from collections.abc import Iterable

from spark_jobs.figures.format import PERCENT
from spark_jobs.figures.names import access_name
from spark_jobs.figures.table3_clusters.option_effects import Effect


def effects_text(access: str, effects: Iterable[Effect]) -> str | None:
    """Return the options whose adjusted effect is beyond chance; None if there are none."""
    texts = [
        f"{access_name(access)}: {effect.contrast.name} "
        f"{PERCENT.change(effect.adjusted.estimate or 0)} goodput"
        for effect in effects
        if effect.adjusted.supported
    ]
    return "; ".join(texts) or None
