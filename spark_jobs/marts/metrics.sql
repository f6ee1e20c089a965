-- How do networks, days and hours compare: set-up, round trips, channel, losses, rates?
-- One row: a metric of one network, date, local hour and group of users. Groups of users allow for
-- what one user has being alike, and name nobody; a user is in the same one for ever.
select
    local_hour,
    metric,
    user_group,
    count(*) as measured,
    sum(numerator) as numerator,
    sum(denominator) as denominator
from measures
group by all
