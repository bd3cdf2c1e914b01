-- ledger-sql: a ledger in plain SQL, of the shape that is usual for one.
--
-- A transfer moves an amount between two accounts.  It locks both account rows
-- in the order of their ids, so that no two transfers deadlock, checks the
-- balance, writes the transfer and one entry per account with the balance before
-- and after, and updates both accounts.  The locks last until the commit is on
-- disk: transfers that have an account in common come one after another, each
-- with a flush of its own.
--
-- Public ledgers of this shape, pgledger among them, use numeric amounts and
-- text ids made by SQL functions, check the limits in further functions, and
-- take a list of transfers.  This one is written to be hard to beat within the
-- shape: bigint throughout, one function, as few statements as the shape allows.
-- The foreign keys and indexes are those that such a ledger has.  It knows no
-- idempotency keys.

CREATE SCHEMA ledger_sql;

CREATE TABLE ledger_sql.accounts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text NOT NULL UNIQUE,
    balance        bigint NOT NULL DEFAULT 0,
    version        bigint NOT NULL DEFAULT 0,
    allow_negative bool NOT NULL DEFAULT false,
    updated_at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50); -- every update finds room in its page

CREATE TABLE ledger_sql.transfers (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_account bigint NOT NULL REFERENCES ledger_sql.accounts,
    to_account   bigint NOT NULL REFERENCES ledger_sql.accounts,
    amount       bigint NOT NULL CHECK (amount > 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (from_account <> to_account)
);
CREATE INDEX ON ledger_sql.transfers (from_account);
CREATE INDEX ON ledger_sql.transfers (to_account);

CREATE TABLE ledger_sql.entries (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id     bigint NOT NULL REFERENCES ledger_sql.accounts,
    transfer_id    bigint NOT NULL REFERENCES ledger_sql.transfers,
    amount         bigint NOT NULL,
    balance_before bigint NOT NULL,
    balance_after  bigint NOT NULL,
    version        bigint NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON ledger_sql.entries (account_id);
CREATE INDEX ON ledger_sql.entries (transfer_id);

CREATE FUNCTION ledger_sql.transfer(payer bigint, payee bigint, sum bigint)
    RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    a ledger_sql.accounts;
    p ledger_sql.accounts; -- the payer
    r ledger_sql.accounts; -- the receiver
    t bigint;
BEGIN
    FOR a IN SELECT * FROM ledger_sql.accounts WHERE id IN (payer, payee)
            ORDER BY id FOR UPDATE LOOP
        IF a.id = payer THEN p := a; ELSE r := a; END IF;
    END LOOP;
    IF p.id IS NULL OR r.id IS NULL THEN
        RAISE EXCEPTION 'no such account';
    END IF;
    IF p.balance < sum AND NOT p.allow_negative THEN
        RAISE EXCEPTION 'account % has only %', payer, p.balance;
    END IF;

    INSERT INTO ledger_sql.transfers (from_account, to_account, amount)
        VALUES (payer, payee, sum) RETURNING id INTO t;
    INSERT INTO ledger_sql.entries (account_id, transfer_id, amount,
            balance_before, balance_after, version)
        VALUES (payer, t, -sum, p.balance, p.balance - sum, p.version + 1),
               (payee, t, sum, r.balance, r.balance + sum, r.version + 1);
    UPDATE ledger_sql.accounts SET balance = p.balance - sum,
            version = p.version + 1, updated_at = now() WHERE id = payer;
    UPDATE ledger_sql.accounts SET balance = r.balance + sum,
            version = r.version + 1, updated_at = now() WHERE id = payee;
    RETURN t;
END
$$;
