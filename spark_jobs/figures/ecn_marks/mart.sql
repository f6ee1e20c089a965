-- Which share of the downlink packets is marked by ECN (RFC 3168, RFC 9768) on the Internet side
-- and on the access side, and which share is lost there?
-- One row: the connections of one network, date, local hour and user group whose ends agreed on
-- ECN, or did not (see ecn).
-- Groups: hour, ecn
select
    local_hour,
    user_group,
    -- string: none, classic or accurate (see flows)
    ecn,
    count(*) as flows,
    -- int64 [packets]: downlink packets with data seen at Gi
    sum(data_packets_down) as data_packets,
    -- int64 [packets] (RFC 3168, 5): downlink packets that can be marked (flows.ect_down)
    sum(ect_down) as ect_packets,
    -- int64 [packets] (RFC 3168, 5): of these, packets marked on the Internet side
    sum(ce_down) as marked_internet,
    -- int64 [packets] (RFC 9768): packets that can be marked, of connections whose marks on the
    -- access side are counted (accurate ECN)
    coalesce(sum(ect_down) filter (where marks_access is not null), 0) as counted_packets,
    -- int64 [packets] (RFC 9768, 3.2): of these, packets marked on the access side
    coalesce(sum(marks_access), 0) as marked_access,
    -- int64 [episodes] (RFC 3168, 6.1): episodes of ECE by marks on the access side (classic ECN)
    coalesce(sum(ecn_episodes_access), 0) as episodes_access,
    -- double [packets] (INFOCOM V): expected losses on the access side
    sum(lost_access_expected) as lost_access,
    -- double [packets] (INFOCOM V): expected losses on the Internet side
    sum(lost_internet_expected) as lost_internet
from connections
where ecn is not null
    and lost_access_expected + lost_internet_expected is not null
    and data_packets_down > 0
group by local_hour, user_group, ecn
