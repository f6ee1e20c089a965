-- Fig. 11: which share of the bytes that its user received did a large transfer carry?
-- One row: the large transfers of one network, date, local hour, share and user group.
-- Groups: hour
select
    local_hour,
    -- double (INFOCOM VI.B): lower edge of the bin of b_tcp / (b_tcp + b_other), in sixtieths, of
    -- which twentieths and thirds are made. Without background traffic it is 1
    floor(60 * b_tcp / (b_tcp + b_other)) / 60 as bin,
    user_group,
    count(*) as flows
from connections
where user_throughput is not null and b_tcp + b_other > 0
group by all
