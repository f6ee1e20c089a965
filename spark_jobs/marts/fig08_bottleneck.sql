-- Fig. 8: on which side does a connection lose more packets?
-- One row: the connections of one network, date, local hour, side and group of users.
select
    cell,
    bottleneck, user_group,
    count(*) as flows
from connections
where bottleneck is not null
group by cell, bottleneck, user_group
