-- How sure are the quantiles and means of Figs. 3, 4, 7, 9 and 13, and of the users' waits in
-- queues, given that users differ?
-- One row: the samples of one network, date, period, measure, category of the figure, user group
-- and bin of 2 %. The weight of a channel rate is the time for which it was measured. The local
-- hour is the first one of the period.
-- Groups: period, measure, category
with transfers as (
    select
        *,
        cast(cast(least(floor(3 * b_other / nullif(b_tcp + b_other, 0)), 2) as int) as string)
            as background_thirds
    from connections
),
samples as (
    select
        local_period, user_group,
        'setup_delay' as measure,
        concat(
            if(syn_count = 1 and synack_count = 1, 'single', 'repeated'),
            if(setup_background, ' background', '')
        ) as category,
        setup_delay as value,
        1e0 as weight
    from connections
    union all
    select local_period, user_group, 'rtt_access', '', rtt_access, 1e0
    from connections
    union all
    select local_period, user_group, 'rtt_internet', '', rtt_internet, 1e0
    from connections
    union all
    select local_period, user_group, 'throughput', '', throughput, 1e0
    from connections
    union all
    select
        local_period, user_group,
        'throughput_received', '', throughput_received, 1e0
    from connections
    union all
    select
        local_period, user_group,
        'user_throughput', background_thirds, user_throughput, 1e0
    from transfers
    union all
    select
        local_period, user_group,
        'user_throughput_received', background_thirds, user_throughput_received, 1e0
    from transfers
    union all
    select local_period, user_group, 'channel_rate', '', rate, seconds
    from rate_periods
    union all
    select local_period, user_group, 'rtt_max', '', rtt_max, 1e0
    from located_links
    union all
    select local_period, user_group, 'queue_s', '', queue_s, 1e0
    from located_links
)
select
    local_period as local_hour,
    -- string: setup_delay, rtt_access, rtt_internet, throughput, throughput_received,
    -- user_throughput or user_throughput_received, as in flows; channel_rate; or rtt_max or
    -- queue_s, as in links, with one sample for each user and hour
    measure,
    -- string: of setup_delay: single (one SYN and one SYN ACK) or repeated, with or without
    -- background traffic; of the user throughputs: the third of background traffic, as in
    -- fig13_user_throughput. Else empty
    category,
    user_group,
    -- int32: fifty times the natural logarithm of the value in s or bit/s, rounded down
    cast(floor(50 * ln(greatest(value, 1e-6))) as int) as bin,
    -- int64 [samples]: number of samples
    count(*) as samples,
    -- double: sum of their weights: of channel_rate, the seconds for which it was measured; else 1
    -- for each sample
    sum(weight) as weight,
    -- double: sum of weight times value, in s or bit/s
    sum(weight * value) as weighted_sum,
    -- double or null: smallest value, in s or bit/s
    min(value) as lowest,
    -- double or null: largest value, in s or bit/s
    max(value) as highest
from samples
where value is not null
group by all
