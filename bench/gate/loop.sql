-- The loop around the function of bench_gate.c; `library` is its path.
--
-- Each turn is a transaction, as each request is: so what a charge owes at the
-- end of its transaction is part of what is measured.

CREATE SCHEMA bench;

CREATE FUNCTION bench.steps(credential text, upto int4) RETURNS int4
    LANGUAGE c STRICT AS :'library', 'bench_steps';
CREATE FUNCTION bench.cpu_us() RETURNS float8
    LANGUAGE c STRICT AS :'library', 'bench_cpu_us';

CREATE PROCEDURE bench.turns(credential text, upto int4, n int4,
                             INOUT us_per_turn float8 DEFAULT NULL)
    LANGUAGE plpgsql AS $$
DECLARE
    started float8;
    done int4;
BEGIN
    started := bench.cpu_us();
    FOR i IN 1..n LOOP
        done := bench.steps(credential, upto);
        COMMIT;
    END LOOP;
    us_per_turn := (bench.cpu_us() - started) / n;
END $$;
