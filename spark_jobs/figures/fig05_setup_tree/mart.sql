-- Fig. 5: into which areas of the set-up tree do the connections fall?
-- One row: the connections of one network, date, local hour, leaf and user group.
-- Groups: hour, setup_class, setup_retransmission, setup_reset, reset_by, background
select
    local_hour,
    -- string: set-up category, as in flows
    setup_class,
    -- string or null: of slight_problem: as in flows. Null for other categories
    setup_retransmission,
    -- bool or null: of serious_problem: whether an RST ended the set-up. Null for other categories
    setup_reset,
    -- string or null (Weaver, Sommer and Paxson, NDSS 2009): of a set-up that an RST ended
    -- (refused, or serious_problem with setup_reset): sender of the RST, as in flows. Null for
    -- other set-ups, or if nothing else came from that end
    if(setup_reset or setup_class = 'refused', reset_by, null) as reset_by,
    -- bool: whether the user had background traffic before or during the set-up
    -- (flows.setup_background)
    setup_background as background,
    user_group,
    count(*) as flows,
    -- int64 [connections]: of these, connections with a set-up delay
    count(setup_delay) as delay_flows,
    -- double [s]: sum of their set-up delays
    coalesce(sum(setup_delay), 0) as delay_sum
from connections
where setup_class is not null and setup_background is not null
group by all
