"""links: the access links of users, hour by hour."""

from schemas.table import TIMESTAMP, Column, Table

LINKS = Table(
    name="links",
    row="one access link of a user in one hour of UTC, measured by the connections that start on "
    "the date",
    columns=(
        Column("user", "string", "the user's key", required=True),
        Column("link", "string", "the link's key (see flows)", required=True),
        Column("hour", TIMESTAMP, "start of the hour", required=True),
        Column(
            "rtt_samples",
            "int64",
            "RTT samples on the access side: those of handshakes, and those of data sent once and "
            "in order",
            "RTT samples",
            required=True,
        ),
        Column(
            "rtt_min",
            "double",
            "the smallest of them: the base RTT. Null, like all columns below, if something at Gi "
            "splits the user's connections (flows.split), or if Gi missed more than a tenth of "
            "the data of most of them",
            "s",
        ),
        Column("rtt_median", "double", "median of the RTT samples", "s"),
        Column(
            "rtt_max",
            "double",
            "the largest RTT of connections within the hour, also of RTTs that only SACK blocks "
            "show during a recovery",
            "s",
        ),
        Column(
            "rate",
            "double",
            "the link's rate at the IP layer, from ACKs between which the link was busy",
            "bit/s",
            "INFOCOM IV",
        ),
        Column(
            "queue_bytes",
            "double",
            "capacity of the queue in front of the link, inferred from the losses of the date. "
            "Null if there were too few losses",
            "B",
            "Wennström et al., Electronics Letters 2004",
        ),
        Column(
            "queue_s",
            "double",
            "time that a packet waits in the full queue: the limit of a buffer that drops by age",
            "s",
            "Wennström et al., Electronics Letters 2004",
        ),
        Column(
            "lost_with_room",
            "double",
            "share of packets lost while the queue had room: losses of the radio",
        ),
        Column(
            "queue_kind",
            "string",
            "what the queue did on the date: fifo (kept the order of the user's packets, and "
            "dropped only what had no room), early_drop (dropped packets though it had room, to "
            "stay short: CoDel, PIE, RED), fair (let packets overtake those of other connections: "
            "FQ-CoDel, fq). Null if too few losses, and too few packets of several connections, "
            "show it",
            source="RFC 7567",
        ),
    ),
    sorted_by=("hour",),
)
