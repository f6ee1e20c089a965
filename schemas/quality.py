"""quality: the results of a day's checks, and whether they hold the day."""

from schemas.table import Column, Table

MAX_OPTIONS_CUT_SHARE = 0.01
"""Maximum share of a day's TCP packets with cut options; above it, the capture needs a change."""

FAILED = "failed"
"""The measure of a row about something of the day that could not be made."""

QUALITY = Table(
    name="quality",
    row="one check of a network's day, at its last run, or one mart that could not be made",
    columns=(
        Column(
            "measure",
            "string",
            "what the check measures: unread_captures, skipped_share, duplicate_share, "
            "copied_share, clock_steps, acked_unseen_share, one_way_share, no_flow_share, "
            "losses_unknown_share, sending_unknown_share, split_share, near_share, merged_share, "
            "options_cut_share, quic_cut_share, not_tcp_share, tunnel_share, ipv6_share, "
            "shared_share, vlan_tuples, without_syn_share, peak_flows or volume_ratio; or failed, "
            "if the flows (which holds the day) or a mart (which does not) could not be made",
            required=True,
        ),
        Column("value", "double", "the measured value. Null if it could not be measured"),
        Column("lowest", "double", "a smaller value holds the day. Null: no value is too small"),
        Column("highest", "double", "a larger value holds the day. Null: no value is too large"),
        Column("passed", "bool", "whether the check lets the day be published", required=True),
        Column("finding", "string", "result of the check in words", required=True),
        Column("released", "string", "reason why the day is published in spite of a failed check"),
    ),
)
