-- Not a mart: the connections that the marts count: those that the mobile opened (INFOCOM II: only
-- connections initiated by the mobile host are considered).
-- One row: a connection (see located_connections.sql).
select * from located_connections where by_mobile
