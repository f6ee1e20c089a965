-- Table III, Figs. 14 to 17: how does goodput differ with MSS, window, SACK and timestamps?
-- One row: the single greedy transfers above 32 KB of one network, date, local hour, cluster of
-- options, class of size and group of users. Groups of users let an analysis of the sums allow for
-- transfers of one user being alike, and name nobody.
select
    network, date, country, access, hour, period,
    mss_class, window_class, sack, timestamps,
    cast(floor(log2(payload_bytes_down)) as int) as size_class,
    cast(pmod(xxhash64(user), 64) as int) as user_group,
    count(*) as flows,
    sum(goodput) as goodput_sum,
    sum(goodput * goodput) as goodput_squares,
    sum(ln(goodput)) as log_goodput_sum
from connections
where single and request_response and payload_bytes_down > 32768 and goodput > 0
    and mss_class is not null and window_class is not null and sack is not null
group by
    network, date, country, access, hour, period,
    mss_class, window_class, sack, timestamps, size_class, user_group
