-- Which share of the downlink packets is marked by ECN (RFC 3168, RFC 9768) on the Internet side and
-- on the access side, and which share is lost there?
-- One row: the connections of one network, date, local hour and user group whose ends agreed on
-- ECN, or did not (see ecn).
select
    local_hour,
    user_group,
    ecn,
    count(*) as flows,
    sum(data_packets_down) as data_packets,
    sum(ect_down) as ect_packets,
    sum(ce_down) as marked_internet,
    coalesce(sum(ect_down) filter (where marks_access is not null), 0) as counted_packets,
    coalesce(sum(marks_access), 0) as marked_access,
    coalesce(sum(ecn_episodes_access), 0) as episodes_access,
    coalesce(sum(ecn_episodes_internet), 0) as episodes_internet,
    sum(lost_access_expected) as lost_access,
    sum(lost_internet_expected) as lost_internet
from connections
where ecn is not null
    and lost_access_expected + lost_internet_expected is not null
    and data_packets_down > 0
group by local_hour, user_group, ecn
