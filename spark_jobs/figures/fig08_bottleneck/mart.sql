-- Fig. 8: on which side does a connection lose more packets?
-- One row: the connections of one network, date, local hour, side and user group.
-- Groups: hour, bottleneck
select
    local_hour,
    -- string: side with more losses: access or internet; equal; or none
    bottleneck,
    user_group,
    count(*) as flows
from connections
where bottleneck is not null
group by local_hour, bottleneck, user_group
