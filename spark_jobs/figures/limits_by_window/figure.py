"""Limits of transfers (Zhang et al., SIGCOMM 2002)."""

from schemas.flows import LIMITS
from spark_jobs.figures.figure import Figure, Shares
from spark_jobs.figures.limits_by_window.numbers import LIMIT_COLOURS, LIMIT_LABELS, TIMES

FIGURE = Figure(
    "limits",
    "Limits of transfers",
    "Zhang et al., SIGCOMM 2002; Kohlwes et al. (the UMTS study), Section IV.A",
    "Time from the handshakes to the ACKs of the last data, by the limit of the transfers: "
    f"{'; '.join(f'{LIMIT_LABELS[name]}: {when}' for name, when in LIMITS.items())}.",
    "why",
    TIMES,
    by_hours=True,
    drawn=Shares("Share of the time", LIMIT_COLOURS, amount="time"),
    notes=[
        "The UMTS study (Section IV.A; to its knowledge without other users): handovers appear as "
        "delay spikes, two in one download from a moving car, and cause no RTO expiry."
    ],
    part_heading="Why transfers were slow",
)
