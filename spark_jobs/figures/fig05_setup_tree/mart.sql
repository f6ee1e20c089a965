-- Fig. 5: into which areas of the set-up tree do the connections fall?
-- One row: the connections of one network, date, local hour, leaf and user group.
select
    local_hour,
    setup_class,
    setup_retransmission,
    setup_reset,
    if(setup_reset or setup_class = 'refused', reset_by, null) as reset_by,
    setup_background as background,
    user_group,
    count(*) as flows,
    count(setup_delay) as delay_flows,
    coalesce(sum(setup_delay), 0) as delay_sum
from connections
where setup_class is not null and setup_background is not null
group by all
