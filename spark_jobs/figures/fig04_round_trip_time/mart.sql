-- Fig. 4: how are the RTTs of the handshakes distributed, on the access side and on the Internet
-- side, at peak and off-peak?
-- One row: the connections of one network, date, local hour, side and 10 ms bin of the RTT.
-- Groups: hour, side
with handshake_rtts as (
    select *, 'access' as side, rtt_access as rtt
    from connections
    union all
    select *, 'internet' as side, rtt_internet as rtt
    from connections
)
select
    local_hour,
    -- string: access or internet
    side,
    -- double [s]: lower edge of the histogram bin
    floor(rtt * 100) / 100 as bin,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- double [s]: sum of their RTTs
    sum(rtt) as rtt_sum
from handshake_rtts
where rtt is not null
group by local_hour, side, floor(rtt * 100) / 100
