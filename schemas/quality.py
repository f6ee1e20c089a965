"""quality: what the checks of a day found, and whether they hold it back."""

import pyarrow as pa

from schemas.table import Column, Table

MAX_OPTIONS_CUT_SHARE = 0.01
"""Share of a day's TCP packets with cut options from which on the capture is to be changed."""

QUALITY = Table(
    name="quality",
    row="one check of a network's day, as it was last made",
    columns=(
        Column(
            "measure",
            pa.string(),
            "what is checked: unread_captures, skipped_share, duplicate_share, copied_share, "
            "clock_steps, acked_unseen_share, "
            "one_way_share, losses_unknown_share, sending_unknown_share, split_share, near_share, "
            "merged_share, options_cut_share, not_tcp_share, tunnel_share, without_syn_share, "
            "peak_flows or volume_ratio",
            required=True,
        ),
        Column("value", pa.float64(), "what was found; null where it could not be measured"),
        Column("lowest", pa.float64(), "a value below holds the day back; null: none is too low"),
        Column("highest", pa.float64(), "a value above holds the day back; null: none is too high"),
        Column("passed", pa.bool_(), "the check does not hold the day back", required=True),
        Column("finding", pa.string(), "the check's result in words", required=True),
        Column("released", pa.string(), "why the day is published in spite of a failed check"),
    ),
)
