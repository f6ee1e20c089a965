"""links: users' access links, hour by hour."""

import pyarrow as pa

from schemas.table import TIMESTAMP, Column, Table

LINKS = Table(
    name="links",
    row="one user's access link in one hour, from the connections that start on the date",
    columns=(
        Column("user", pa.string(), "the subscriber's key", required=True),
        Column("hour", TIMESTAMP, "when the hour begins", required=True),
        Column(
            "rtt_samples",
            pa.int64(),
            "round trips between Gi and the mobile that tell of it: the handshakes', and those of "
            "data sent once, in order",
            "round trips",
            required=True,
        ),
        Column(
            "rtt_min",
            pa.float64(),
            "the least of them: the idle link's; null, as all that follows, of users whose "
            "connections something at Gi splits (flows.split), and where of most of their "
            "connections more than a tenth was not seen",
            "s",
        ),
        Column("rtt_median", pa.float64(), "their median", "s"),
        Column(
            "rtt_max",
            pa.float64(),
            "the longest, also of those that only SACK blocks tell while losses are repaired, of "
            "connections within the hour",
            "s",
        ),
        Column(
            "rate",
            pa.float64(),
            "the link's rate at the IP layer, from ACKs between which it was busy",
            "bit/s",
            "INFOCOM IV",
        ),
        Column(
            "queue_bytes",
            pa.float64(),
            "how much the queue in front of the link holds, from what it lost on the date; null "
            "where it lost too little to tell",
            "B",
            "Wennström et al., Electronics Letters 2004",
        ),
        Column(
            "queue_s",
            pa.float64(),
            "how long a packet waits when the queue is full: the limit of a buffer that drops by "
            "age",
            "s",
            "Wennström et al., Electronics Letters 2004",
        ),
        Column(
            "lost_with_room",
            pa.float64(),
            "the share lost though the queue had room: by the radio",
        ),
    ),
    sorted_by=("hour",),
)
