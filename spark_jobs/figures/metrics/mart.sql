-- How do networks, days and hours compare: set-up, round trips, channel, losses, rates?
-- One row: a metric of one network, date, local hour and user group. What happens to one user
-- is alike, so the spread of the groups gives confidence intervals. A user is always in the same
-- group, and a group names nobody.
select
    local_hour,
    metric,
    user_group,
    count(*) as measured,
    sum(numerator) as numerator,
    sum(denominator) as denominator
from metric_terms
group by all
