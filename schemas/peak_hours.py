"""peak_hours: the peak and off-peak hours of each day."""

from schemas.table import Column, Table

PEAK_HOURS = Table(
    name="peak_hours",
    row="one day of a network. Its hours are local; if `from` is after `until`, they are over "
    "midnight. A day without peak hours and off-peak hours is shown as a whole",
    columns=(
        Column("peak_from", "int32", "first hour of the peak period", "h", "INFOCOM III.B"),
        Column(
            "peak_until",
            "int32",
            "hour at which the peak period ends, exclusive",
            "h",
            "INFOCOM III.B",
        ),
        Column("off_peak_from", "int32", "first hour of the off-peak period", "h", "INFOCOM III.B"),
        Column(
            "off_peak_until",
            "int32",
            "hour at which the off-peak period ends, exclusive",
            "h",
            "INFOCOM III.B",
        ),
        Column(
            "set_by",
            "string",
            "what the hours are: `file`, those of the networks file; `default`, those of the "
            "paper, or none if no connection starts in them; `traffic`, the busiest two and the "
            "quietest four hours of earlier days, or none if these are too few",
            required=True,
        ),
    ),
)
