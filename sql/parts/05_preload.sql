\echo Use "CREATE EXTENSION mortar" to load this file. \quit

-- 05_preload.sql
-- The library must be preloaded: say so before anything else is made.

CREATE FUNCTION mortar.check_preload() RETURNS void
    LANGUAGE c STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtr_check_preload';
SELECT mortar.check_preload();
DROP FUNCTION mortar.check_preload();
