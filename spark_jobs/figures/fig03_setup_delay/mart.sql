-- Fig. 3: how is the set-up delay distributed, with one SYN and SYN ACK or more, and with
-- background traffic or without?
-- One row: the connections of one network, date, local hour, category and 0.1 s bin of the delay.
-- Groups: hour, single, background
select
    local_hour,
    -- bool (INFOCOM III.A): whether the set-up had one SYN and one SYN ACK
    syn_count = 1 and synack_count = 1 as single,
    -- bool (INFOCOM III.A): whether the user had background traffic before or during the set-up
    -- (flows.setup_background)
    setup_background as background,
    -- double [s]: lower edge of the histogram bin
    floor(setup_delay * 10) / 10 as bin,
    count(*) as flows,
    bit_or(user_bit) as user_groups,
    user_numbers_of(user_group) as user_numbers,
    -- double [s]: sum of their set-up delays
    sum(setup_delay) as delay_sum
from connections
where setup_delay is not null and setup_background is not null
group by
    local_hour,
    syn_count = 1 and synack_count = 1, setup_background, floor(setup_delay * 10) / 10
