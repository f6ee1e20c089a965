-- What Zeek's logs say of some flows. Reads `application_log` and `flow` (place, user,
-- server, ports, start_us, end_us). One row is a flow of which a log tells.
-- A row of a log belongs to the latest flow of the same addresses and ports that begins before the
-- row ends, if that flow has not ended before the row begins; $slack is the clocks' difference.
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
told as (
    -- requests: their numbers count more than them where one was skipped, but also those of which
    -- the log's rows are not here
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
from told left join services using (place)
order by place
