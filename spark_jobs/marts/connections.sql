-- Not a mart: the rows that all marts of connections count.
-- One row: a connection that the mobile opened (INFOCOM II: only connections initiated by the mobile
-- host are considered), placed.
select * from placed where by_mobile
