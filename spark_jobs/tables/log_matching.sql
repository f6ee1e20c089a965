-- What do Zeek's logs report about connections?
-- One row: a connection that a log reports on. Reads `application_log` and `flow` (place, user,
-- server, ports, start_us, end_us; one row is a connection).
-- A row of a log belongs to the latest connection of the same addresses and ports that begins
-- before the row ends, if that connection has not ended before the row begins. $slack is the
-- maximum difference between the clocks (µs).
with log as (
    select *, epoch_us(ts) - $slack as from_us, epoch_us(end_ts) + $slack as until_us
    from application_log
),
matched as (
    select place, log.*
    from log asof join flow
        on log.user = flow.user and log.user_port = flow.user_port
        and log.server = flow.server and log.server_port = flow.server_port
        and log.until_us >= flow.start_us
    where flow.end_us >= log.from_us
),
services as (
    select place, string_agg(distinct service, ',' order by service) as service
    from (select place, unnest(string_split(service, ',')) as service from matched)
    group by place
),
reported as (
    -- The largest request number includes requests whose rows are missing here, but it is too large
    -- if a number was skipped. So it is taken only if the row of the first request is missing.
    select place,
        if(min(request) = 1, count(distinct request), max(request)) as requests,
        count(distinct request) filter (answered) as answers,
        bool_and(not answered) filter (log = 'ssl') as refused
    from matched group by place
)
select place, service, requests,
    case when requests is not null then answers end as responses,
    case
        when requests is not null then requests = 1 and answers = 1
        when refused then false
    end as request_response
from reported left join services using (place)
order by place
