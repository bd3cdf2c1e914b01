-- 90_epoch.sql
-- The running epoch goes on record at once: should the server crash before
-- anything was flushed, mortar.epochs says so.

CREATE FUNCTION mortar.enter_epoch() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_enter_epoch';
SELECT mortar.enter_epoch();
DROP FUNCTION mortar.enter_epoch();
