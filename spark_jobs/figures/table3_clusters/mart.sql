-- Table III, Figs. 14 to 17: how does goodput differ with MSS, window, SACK and timestamps?
-- One row: the single greedy transfers above 32 KiB of one network, date, local hour, cluster of
-- options, class of size, user group and channel rate, in bins of 1 %. The channel rate is that of
-- the user's link in the hour of UTC in which the transfer starts. It is null if it is not known.
-- (Rates of channel_rates depend on the options: small windows never fill the link for long.)
with transfers as (
    select
        connections.*,
        highest_bit(payload_bytes_down) as size_class,
        cast(floor(100 * ln(links.rate)) as int) as rate_bin
    from connections
    left join located_links as links
        on links.link_key = connections.link_key
        and links.utc_hour = connections.utc_hour
        and links.rate > 0
    where single and request_response and payload_bytes_down > 32768 and goodput > 0
        and mss_class is not null and window_class is not null and sack is not null
        and timestamps is not null
)
select
    local_hour,
    mss_class, window_class, sack, timestamps, size_class, user_group, rate_bin,
    count(*) as flows,
    sum(goodput) as goodput_sum,
    sum(goodput * goodput) as goodput_squares,
    sum(ln(goodput)) as log_goodput_sum
from transfers
group by all
