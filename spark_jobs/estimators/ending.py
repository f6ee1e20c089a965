"""The endings of connections, and the times to the first answer."""

import numpy as np

from spark_jobs.compiled import compiled
from spark_jobs.estimators.tcp import FIN, RST

SILENT, FIN_MOBILE, FIN_SERVER, FINS, RST_MOBILE, RST_SERVER = range(6)
ENDINGS = ("silent", "fin_mobile", "fin_server", "fin", "rst_mobile", "rst_server")
"""Names of the endings: none of the two, a FIN of one end or of both, or an RST before that."""

ENDING = np.dtype([("ended", "i1"), ("first_byte_us", "i8")], align=True)
"""The end of a connection, and its first answer.

ended: into ENDINGS
first_byte_us: time from the mobile's first data to the server's first data (µs); -1 if the server
    sends first, or if one of them sends none
"""


@compiled
def endings(segments, connections):
    """Return ENDING[C] of Segments and their Connections. Probes and RSTs carry no data."""
    first, flags = connections.first, segments.tcp_flags
    out = np.zeros(len(first) - 1, ENDING)
    for c in range(len(out)):
        row = out[c]
        row.first_byte_us = -1
        fins, reset = SILENT, SILENT
        requested, is_open = np.int64(-1), True
        for i in range(first[c], first[c + 1]):
            down = segments.downlink[i]
            if flags[i] & FIN:
                fins |= FIN_SERVER if down else FIN_MOBILE
            if flags[i] & RST:
                if fins != FINS and reset == SILENT:
                    reset = RST_SERVER if down else RST_MOBILE
            elif is_open and segments.payload_len[i] and not segments.probe[i]:
                if not down:
                    requested = segments.ts[i] if requested < 0 else requested
                    continue
                if requested >= 0:
                    row.first_byte_us = segments.ts[i] - requested
                is_open = False
        row.ended = fins if reset == SILENT else reset
    return out
