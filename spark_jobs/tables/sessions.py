"""sessions: what Zeek's logs say of connections."""

import pyarrow as pa

from schemas import SESSIONS
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """The rows of schemas.SESSIONS."""
    place = partition.sessions["place"].to_numpy()
    found = partition.sessions.set_column(0, "flow_id", pa.array(partition.flow_ids[place]))
    mine = pa.array(partition.connections.starts_in_window[place])
    return found.filter(mine).cast(SESSIONS.arrow_dictionary)
