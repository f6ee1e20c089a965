-- Table II: which share of the data packets is lost on the Internet side and on the access side?
-- One row: the connections of one network, date, local hour and user group with downlink data.
select
    local_hour,
    user_group,
    count(*) as flows,
    sum(data_packets_down) as data_packets,
    sum(lost_access_expected) as lost_access,
    sum(lost_access_min) as lost_access_min,
    sum(lost_access_max) as lost_access_max,
    sum(lost_internet_expected) as lost_internet
from connections
where lost_access_expected + lost_access_min + lost_access_max + lost_internet_expected is not null
    and data_packets_down > 0
group by local_hour, user_group
