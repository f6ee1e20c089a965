-- Fig. 3: how is the set-up delay distributed, with one SYN and SYN ACK or more, and with
-- background traffic or without?
-- One row: the connections of one network, date, local hour, category and 0.1 s bin of the delay.
select
    local_hour,
    syn_count = 1 and synack_count = 1 as single,
    setup_background as background,
    floor(setup_delay * 10) / 10 as bin,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    sum(setup_delay) as delay_sum
from connections
where setup_delay is not null and setup_background is not null
group by
    local_hour,
    syn_count = 1 and synack_count = 1, setup_background, floor(setup_delay * 10) / 10
