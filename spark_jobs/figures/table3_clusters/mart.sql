-- Table III, Figs. 14 to 17: how does goodput differ with MSS, window, SACK and timestamps?
-- One row: the single greedy transfers above 32 KiB of one network, date, local hour, cluster of
-- options, class of size, user group and channel rate, in bins of 1 %. The channel rate is that of
-- the user's link in the hour of UTC in which the transfer starts. It is null if it is not known.
-- (Rates of channel_rates depend on the options: small windows never fill the link for long.)
-- Groups: hour, mss_class, window_class, sack, timestamps
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
    -- string: low, high or other, as in flows
    mss_class,
    -- string: low, med or high, as in flows
    window_class,
    -- bool: whether both SYNs permit SACK
    sack,
    -- bool: whether both directions have timestamps
    timestamps,
    -- int32 [log2 B]: bytes transferred, in powers of two: 15 is 32 to 64 KiB
    size_class,
    user_group,
    -- int32 or null (INFOCOM IV): bin of the rate of the user's access link in the hour of UTC in
    -- which the transfer starts (links.rate): hundred times its natural logarithm in bit/s, rounded
    -- down. Null if it is not known
    rate_bin,
    count(*) as flows,
    -- double [bit/s]: sum of the goodputs
    sum(goodput) as goodput_sum,
    -- double [bit²/s²]: sum of the squares of the goodputs
    sum(goodput * goodput) as goodput_squares,
    -- double [1]: sum of the natural logarithms of the goodputs in bit/s
    sum(ln(goodput)) as log_goodput_sum
from transfers
group by all
