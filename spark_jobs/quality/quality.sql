-- The values that the checks of one network's day compare with their limits, in one row.
-- Volumes of earlier days come from the marts, so held days do not count as usual.
with captures as (
    select *
    from ingest_log
    where network = $network
        and duplicate_of is null
        and coalesce(first_ts::date, date) <= $date::date
        and coalesce(last_ts::date, date) >= $date::date
),
reading as (
    select
        coalesce(
            list(capture order by capture) filter (
                where error is not null
                or len(list_intersect(map_keys(skipped), $broken_off::varchar[])) > 0
            ),
            []
        ) as unread_captures,
        sum(frames) as frames,
        sum(
            coalesce(
                list_sum(
                    list_transform(
                        map_entries(skipped),
                        lambda entry: if(entry.key in $unread_reasons::varchar[], entry.value, 0)
                    )
                ),
                0
            )
        ) as skipped,
        sum(coalesce(skipped['duplicate'], 0)) as duplicates,
        sum(coalesce(skipped['clock_backwards'], 0) + coalesce(skipped['clock_forwards'], 0)) as clock_steps,
        sum(coalesce(skipped['clock_backwards_us'], 0)) / 1e6 as clock_back_s,
        sum(coalesce(skipped['clock_forwards_us'], 0)) / 1e6 as clock_forward_s
    from captures
),
connections as (
    select
        count(*) as flows,
        count(*) filter (where initiator = 'unknown') as flows_without_syn,
        count(*) filter (
            where if(
                peak_from < peak_until,
                hour between peak_from and peak_until - 1,
                hour >= peak_from or hour < peak_until
            )
        ) as peak_flows,
        any_value(peak_from) as peak_from,
        any_value(peak_until) as peak_until,
        min(hour) as first_hour,
        max(hour) as last_hour,
        mode(hour order by hour) as busiest_hour,
        count(*) filter (where directions_seen = 'up') as flows_up_only,
        count(*) filter (where directions_seen = 'down') as flows_down_only,
        count(*) filter (where payload_bytes_down > 0) as flows_with_data,
        count(*) filter (where payload_bytes_down > 0 and lost_internet is null)
            as flows_losses_unknown,
        count(*) filter (where payload_bytes_down > 0 and retransmissions is null)
            as flows_sending_unknown,
        count(*) filter (where payload_bytes_down > 0 and split) as flows_split,
        count(rtt_access_min) as flows_timed,
        count(*) filter (where rtt_access_min < $min_radio_rtt) as flows_too_near,
        sum(merged_segments) as merged_segments,
        sum(packets_up + packets_down) as segments,
        sum(acked_unseen_bytes) as acked_unseen_bytes,
        sum(payload_bytes_down + acked_unseen_bytes) as acked_bytes,
        sum(ip_bytes_up + ip_bytes_down) filter (where initiator = 'mobile') as volume
    from (
        select *, hour(start_ts at time zone $timezone) as hour
        from flows
        where network = $network and date = $date::date
    )
    left join peak_hours using (network, date)
),
quic as (
    select
        count(*) as quic_begun,
        count(*) filter (
            where zero_rtt is null
            or setup_class is null
            or (
                setup_delay is null
                and setup_class not in ('no_response', 'refused', 'serious_problem')
            )
        ) as quic_cut
    from quic_flows
    where network = $network and date = $date::date and begin_seen
),
traffic as (
    select
        sum(ip_len) as ip_bytes,
        coalesce(sum(ip_len) filter (where ip_proto <> 6), 0) as not_tcp_bytes,
        coalesce(sum(ip_len) filter (where ip_proto in $tunnels::utinyint[]), 0) as tunnel_bytes,
        count(*) as packets,
        count(*) - count(ip_id) as ipv6_packets,
        count(tcp_flags) as tcp_packets,
        count(options_cut) as options_cut
    from packets
    where network = $network and date = $date::date
),
-- Captures that may have the same packets, because their times overlap.
overlapping as (
    select distinct one.capture, one.packets
    from captures as one
    join captures as other
        on one.capture <> other.capture
        and one.first_ts <= other.last_ts + to_milliseconds($max_copy_delay_ms)
        and other.first_ts <= one.last_ts + to_milliseconds($max_copy_delay_ms)
    where one.packets > 0 and other.packets > 0
),
sampling as (
    select greatest(1, least(64, sum(packets) // $compared_packets))::bigint as every
    from overlapping
),
-- Their packets, or a sample of one in `every`. An IP ID distinguishes a packet from the others of its
-- sender. Without one (IPv6, ID 0) the TCP header does, unless it is that of an acknowledgment alone.
compared as (
    select
        ts, capture, coalesce(ip_id, 0) = 0 as has_no_id,
        lag(ts) over same as last_ts,
        lag(capture) over same as last_capture
    from packets semi join overlapping using (capture)
    cross join sampling
    where network = $network and date = $date::date
        and if(
            ip_id > 0,
            ip_id % every = 1 % every,
            (payload_len > 0 or tcp_flags & 3 > 0) and hash(seq, user_port) % every = 0
        )
    window same as (
        partition by
            "user", user_port, server, server_port, downlink, ip_proto, ip_id, ip_len, seq, ack,
            tcp_flags, ts_val
        order by ts, capture
    )
),
copies as (
    select
        capture, last_capture,
        capture <> last_capture
            and ts - last_ts <= to_milliseconds(
                if(has_no_id, $max_copy_delay_without_id_ms, $max_copy_delay_ms)
            ) as is_copy
    from compared
),
in_two_captures as (
    select
        count(*) as numbered,
        count(*) filter (where is_copy) as copied,
        mode([least(capture, last_capture), greatest(capture, last_capture)])
            filter (where is_copy) as copied_captures
    from copies
),
-- Users who open connections like many hosts behind one address: with the TTLs of hosts at many
-- distances, or from more ports in an hour than one mobile uses.
opening as (
    select
        "user", count(*) as opened,
        count(distinct ttl) > $max_host_ttls or count(distinct user_port) > $max_host_ports
            as is_shared
    from packets
    where network = $network and date = $date::date and not downlink and tcp_flags & 18 = 2
    group by "user", time_bucket(interval 1 hour, ts)
),
shared as (
    select
        sum(opened) as opened,
        coalesce(sum(opened) filter (where is_shared), 0) as opened_by_shared,
        count(distinct "user") filter (where is_shared) as shared_users
    from opening
),
users_in_vlans as (
    select "user"
    from packets
    where network = $network and date = $date::date
    group by "user"
    having count(distinct coalesce(vlan, 0)) > 1
),
tuples_in_vlans as (
    select
        ("user", user_port, server, server_port) as tuple, downlink, coalesce(vlan, 0) as vlan,
        min(ts) as first_ts, max(ts) as last_ts
    from packets semi join users_in_vlans using ("user")
    where network = $network and date = $date::date and tcp_flags is not null
    group by all
),
in_two_vlans as (
    select count(distinct one.tuple) as vlan_tuples
    from tuples_in_vlans as one
    join tuples_in_vlans as other using (tuple, downlink)
    where one.vlan < other.vlan
        and one.first_ts <= other.last_ts and other.first_ts <= one.last_ts
),
assigned as (
    select count(*) as leases from leases where network = $network and date = $date::date
),
earlier_days as (
    select date, sum(ip_bytes_up + ip_bytes_down) as volume
    from table1_summary
    where network = $network
        and date < $date::date
        and date >= $date::date - 7 * $weeks::integer
        and dayofweek(date) = dayofweek($date::date)
    group by date
),
usual as (
    select count(*) as earlier_days, median(volume) as usual_volume
    from earlier_days
)
select *
from reading, connections, quic, traffic, in_two_captures, shared, in_two_vlans, assigned, usual
