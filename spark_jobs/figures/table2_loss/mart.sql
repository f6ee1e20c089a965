-- Table II: which share of the data packets is lost on the Internet side and on the access side?
-- One row: the connections of one network, date, local hour and user group with downlink data.
-- Groups: hour
select
    local_hour,
    user_group,
    count(*) as flows,
    -- int64 [packets] (INFOCOM V): downlink packets with data seen at Gi, retransmissions included
    sum(data_packets_down) as data_packets,
    -- double [packets] (INFOCOM V): of these, expected losses on the access side
    sum(lost_access_expected) as lost_access,
    -- int64 [packets]: losses on the access side if all packets whose fate is undecided arrived
    sum(lost_access_min) as lost_access_min,
    -- int64 [packets]: losses on the access side if all packets whose fate is undecided were lost
    sum(lost_access_max) as lost_access_max,
    -- double [packets] (INFOCOM V): expected losses on the Internet side: data packets that Gi
    -- never saw
    sum(lost_internet_expected) as lost_internet
from connections
where lost_access_expected + lost_access_min + lost_access_max + lost_internet_expected is not null
    and data_packets_down > 0
group by local_hour, user_group
