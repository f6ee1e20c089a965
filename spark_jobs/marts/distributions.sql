-- How sure are the quantiles and means of Figs. 3, 4, 7, 9 and 13, where users differ?
-- One row: the samples of one network, date, period, measure, category of the figure, group of users
-- and bin of 2 %. A channel rate's weight is the time for which it lasted.
with samples as (
    select
        network, date, country, access, period, user_group,
        'setup_delay' as measure,
        concat(if(syn_count = 1 and synack_count = 1, 'single', 'repeated'),
            if(setup_background, ' background', '')) as category,
        setup_delay as value,
        1.0D as weight
    from connections
    union all
    select
        network, date, country, access, period, user_group,
        stack(
            2,
            'rtt_access', '', rtt_access,
            'rtt_internet', '', rtt_internet
        ) as (measure, category, value),
        1.0D as weight
    from connections
    union all
    select
        network, date, country, access, period, user_group,
        stack(
            4,
            'throughput', '', throughput,
            'throughput_received', '', throughput_received,
            'user_throughput', background_thirds, user_throughput,
            'user_throughput_received', background_thirds, user_throughput_received
        ) as (measure, category, value),
        1.0D as weight
    from (
        select
            *,
            cast(cast(least(floor(3 * b_other / (b_tcp + b_other)), 2) as int) as string)
                as background_thirds
        from connections
    )
    union all
    select
        network, date, country, access, period, user_group,
        'channel_rate' as measure,
        '' as category,
        rate as value,
        cast(seconds as double) as weight
    from rate_periods
)
select
    network, date, country, access, period,
    measure, category, user_group,
    cast(floor(50 * ln(greatest(value, 1e-6))) as int) as bin,
    count(*) as samples,
    sum(weight) as weight,
    sum(weight * value) as weighted_sum
from samples
where value is not null
group by all
