"""sessions: what Zeek's logs say of connections."""

import pyarrow as pa

from schemas import SESSIONS
from spark_jobs.tables.bucket import Bucket


def rows(bucket: Bucket) -> pa.Table:
    """The rows of schemas.SESSIONS."""
    place = bucket.sessions["place"].to_numpy()
    found = bucket.sessions.set_column(0, "flow_id", pa.array(bucket.flow_ids[place]))
    mine = pa.array(bucket.connections.mine[place])
    return found.filter(mine).cast(SESSIONS.arrow_dictionary)
