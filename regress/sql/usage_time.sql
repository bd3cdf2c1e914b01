-- usage() in time: windows, and buckets in any time zone.  The journal gets a
-- quarter of an hour's 15 requests every quarter of an hour, for a leap year and a
-- day on either side: so a bucket's quantity is its length in minutes.
\set VERBOSITY sqlstate
\set super :USER
SET client_min_messages = warning;
SET timezone = 'UTC';
DROP ROLE IF EXISTS regress_admin;
CREATE ROLE regress_admin LOGIN IN ROLE mortar_admin;
SELECT mortar.create_tenant('ust_' || t) FROM unnest('{year,small,none}'::text[]) t;
\set nil '''00000000-0000-0000-0000-000000000000'''
INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute, cost_uc, epoch_id, movement_id)
    SELECT 'ust_year', 'requests', :nil, '', :nil, 15 * i, 15 * (i + 1), '2023-12-31'::timestamptz + i * interval '15 minutes', 0, :nil, :nil
    FROM generate_series(0, 4 * 24 * 368 - 1) i;
-- two keys, two routes and two meters within three minutes of a Feb 29
INSERT INTO mortar.usage_journal (tenant_id, meter, key_id, route, price_id, from_qty, upto_qty, minute, cost_uc, epoch_id, movement_id)
    SELECT 'ust_small', m, ('00000000-0000-0000-0000-00000000000' || k)::uuid, r, :nil, 10 * n, 10 * (n + 1), '2024-02-29 23:58'::timestamptz + n * interval '1 minute', 0, :nil, :nil
    FROM unnest('{requests,egress_bytes}'::text[]) m, generate_series(1, 2) k, unnest('{GET /db/tables,POST /db/tables}'::text[]) r, generate_series(0, 2) n;
INSERT INTO mortar.usage_marks
    SELECT tenant_id, meter, key_id, route, price_id, max(upto_qty), sum(cost_uc)
    FROM mortar.usage_journal WHERE tenant_id LIKE 'ust\_%' GROUP BY 1, 2, 3, 4, 5;
\c - regress_admin
SET timezone = 'UTC';
SELECT check_name, detail FROM mortar.verify_ledger('ust_year') WHERE NOT ok;
SELECT check_name, detail FROM mortar.verify_ledger('ust_small') WHERE NOT ok;

-- the days that are not 24 hours long, and how many there are of each length
CREATE TEMP TABLE zones (tz text);
INSERT INTO zones VALUES ('UTC'), ('Europe/Berlin'), ('America/New_York'), ('Australia/Lord_Howe'), ('Asia/Kathmandu'), ('Africa/Cairo');
SELECT tz, bucket AT TIME ZONE tz AS day, bucket, quantity / 60.0 AS hours FROM zones, mortar.usage('ust_year', by => '{day}', tz => tz)
    WHERE quantity <> 1440 AND (bucket AT TIME ZONE tz)::date BETWEEN '2024-01-01' AND '2024-12-31' ORDER BY tz, bucket;
SELECT tz, count(*) AS days, sum(quantity) / 60 AS hours FROM zones, mortar.usage('ust_year', by => '{day}', tz => tz)
    WHERE (bucket AT TIME ZONE tz)::date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY tz ORDER BY tz;
-- a day begins at its midnight, or, where the clock skips that, just after it
SELECT DISTINCT tz, (bucket AT TIME ZONE tz)::time AS begins FROM zones, mortar.usage('ust_year', by => '{day}', tz => tz) ORDER BY 1, 2;
-- the same days by another way: every row's own local date
SELECT tz, count(*) FILTER (WHERE u.quantity IS DISTINCT FROM j.quantity) AS differ
    FROM zones, LATERAL (SELECT (minute AT TIME ZONE tz)::date AS day, sum(upto_qty - from_qty) AS quantity
        FROM mortar.usage_journal WHERE tenant_id = 'ust_year' GROUP BY 1) j
    FULL JOIN LATERAL (SELECT (bucket AT TIME ZONE tz)::date AS day, quantity FROM mortar.usage('ust_year', by => '{day}', tz => tz)) u USING (day)
    GROUP BY tz ORDER BY tz;

-- months: their ends, February of a leap year, an hour more or less
SELECT to_char(bucket AT TIME ZONE 'Europe/Berlin', 'YYYY-MM-DD HH24:MI') AS berlin, quantity / 60 - 24 * extract(day FROM (bucket AT TIME ZONE 'Europe/Berlin') + interval '1 month - 1 day') AS hours_more
    FROM mortar.usage('ust_year', '2023-12-31 23:00Z', '2024-12-31 23:00Z', by => '{month}', tz => 'Europe/Berlin');
SELECT bucket, quantity / 1440.0 AS days FROM mortar.usage('ust_year', '2024-02-01', '2024-03-01', by => '{month}');
SELECT tz, bucket, quantity / 1440.0 AS days FROM zones, mortar.usage('ust_year', by => '{month}', tz => tz)
    WHERE bucket AT TIME ZONE tz = '2024-02-01' ORDER BY tz;
SELECT bucket, quantity FROM mortar.usage('ust_year', '2024-02-28 12:00', '2024-03-01 12:00', by => '{day}');

-- hours: none is lost where the clock goes forward, none is added to another where it goes back
\set hours 'SELECT bucket, to_char(bucket AT TIME ZONE :tz, ''HH24:MI'') AS local, quantity FROM mortar.usage(''ust_year'', :since, :until, by => ''{hour}'', tz => :tz);'
\set tz '''Europe/Berlin'''
\set since '''2024-03-31 00:00Z'''
\set until '''2024-03-31 03:00Z'''
:hours
\set since '''2024-10-26 23:00Z'''
\set until '''2024-10-27 03:00Z'''
:hours
\set tz '''America/New_York'''
\set since '''2024-03-10 06:00Z'''
\set until '''2024-03-10 08:00Z'''
:hours
\set since '''2024-11-03 05:00Z'''
\set until '''2024-11-03 08:00Z'''
:hours
-- half an hour is skipped (02:00 to 02:30), or lived through twice (01:30 to 02:00, now under the name of an hour that began at +10:30)
\set tz '''Australia/Lord_Howe'''
\set since '''2024-10-05 14:30Z'''
\set until '''2024-10-05 17:00Z'''
:hours
\set since '''2024-04-06 14:00Z'''
\set until '''2024-04-06 16:30Z'''
:hours
-- an hour of Kathmandu begins at a quarter past
\set tz '''Asia/Kathmandu'''
\set since '''2024-02-29 17:15Z'''
\set until '''2024-02-29 20:00Z'''
:hours
SELECT tz, sum(quantity) / 60 AS hours, count(*) FILTER (WHERE quantity <> 60) AS cut FROM zones, mortar.usage('ust_year', by => '{hour}', tz => tz) GROUP BY tz ORDER BY tz;

-- buckets do not depend on the session's time zone, and tz only on names
SET timezone = 'Asia/Kathmandu';
SELECT extract(epoch FROM bucket) = extract(epoch FROM '2024-02-29 00:00Z'::timestamptz) AS same_instant, quantity FROM mortar.usage('ust_year', '2024-02-29 00:00Z', '2024-03-01 00:00Z', by => '{day}');
SET timezone = 'UTC';
SELECT count(*) FROM mortar.usage('ust_year', by => '{day}', tz => '+05:45');
SELECT count(*) FROM mortar.usage('ust_year', by => '{day}', tz => 'cet');

-- every dimension, and any of them together
SELECT bucket, meter, key_id, route, quantity FROM mortar.usage('ust_small', by => '{}');
SELECT bucket, meter, quantity FROM mortar.usage('ust_small', by => '{minute,meter}');
SELECT right(key_id::text, 1) AS key, quantity FROM mortar.usage('ust_small', by => '{key}');
SELECT route, quantity FROM mortar.usage('ust_small', by => '{route}');
SELECT bucket, meter, right(key_id::text, 1) AS key, route, quantity FROM mortar.usage('ust_small', '2024-03-01', by => '{route,key,meter,day}');
SELECT bucket, quantity FROM mortar.usage('ust_small', by => '{month}');
SELECT bucket, quantity FROM mortar.usage('ust_small', by => '{month}', tz => 'America/New_York');
SELECT bucket, quantity FROM mortar.usage('ust_small', by => '{hour}');

-- since is in the window and until is not; minutes stay whole
\set quantity 'SELECT coalesce(sum(quantity), 0) AS quantity FROM mortar.usage(''ust_small'', '
:quantity '2024-02-29 23:58', '2024-03-01 00:01');
:quantity '2024-02-29 23:59', '2024-03-01 00:01');
:quantity '2024-02-29 23:58:00.000001', '2024-03-01 00:01');
:quantity '2024-02-29 23:58', '2024-03-01 00:00');
:quantity '2024-02-29 23:58', '2024-03-01 00:00:00.000001');
:quantity '2024-02-29 23:58', '2024-02-29 23:58');
:quantity '2024-03-01 00:01', '2024-02-29 23:58');
:quantity '-infinity', 'infinity');
:quantity 'infinity', '-infinity');
:quantity '2024-03-01', 'infinity');
:quantity '-infinity', '2024-03-01');
-- windows that meet share nothing and leave nothing out, wherever they meet
SELECT bool_and(w.quantity = 368 * 1440) AS whole FROM generate_series('2024-03-31 00:00'::timestamptz, '2024-03-31 02:00', '7 minutes') cut,
    LATERAL (SELECT sum(quantity) AS quantity FROM (SELECT quantity FROM mortar.usage('ust_year', until => cut)
        UNION ALL SELECT quantity FROM mortar.usage('ust_year', since => cut)) u) w;

-- what is no time zone is refused, also where none is needed and no usage is there
SELECT * FROM mortar.usage('ust_year', by => '{day}', tz => 'Atlantis/Capital');
SELECT * FROM mortar.usage('ust_year', by => '{meter}', tz => 'Atlantis/Capital');
SELECT * FROM mortar.usage('ust_none', by => '{month}', tz => 'Europe/Berlino');
SELECT * FROM mortar.usage('ust_none', by => '{month}', tz => '');
SELECT * FROM mortar.usage('ust_none', by => '{month}', tz => NULL);
SELECT * FROM mortar.usage('ust_none', by => '{day,day}');
SELECT * FROM mortar.usage('ust_none', by => '{second}');
SELECT * FROM mortar.usage('ust_none', by => '{Day}');
SELECT * FROM mortar.usage('ust_none', '2024-02-30', 'infinity');
SELECT * FROM mortar.usage('ust_none', by => '{month}', tz => 'Europe/Berlin');
DISCARD TEMP;
\c - :super
DROP ROLE regress_admin;
