"""sessions: what Zeek's logs report about connections."""

import pyarrow as pa

from schemas import SESSIONS
from spark_jobs.tables.user_partition import UserPartition


def rows(partition: UserPartition) -> pa.Table:
    """Return the rows of schemas.SESSIONS."""
    place = partition.sessions["place"].to_numpy()
    sessions = partition.sessions.set_column(0, "flow_id", pa.array(partition.flow_ids[place]))
    in_span = pa.array(partition.connections.starts_in_window[place])
    return sessions.filter(in_span).cast(SESSIONS.arrow_dictionary)
