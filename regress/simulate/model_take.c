/*
 * model_take.c - who should pay a debit, by the rules (see model.h)
 */
#include "model.h"

static int64_t
min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* the grants that a transaction has made itself and can spend */
static bool
is_own(const struct tx *tx, int g)
{
	const struct mtr_grant *row = &w.t.row[g].g;

	if (m.g[g].where != INCOMING || row->effective_at > m.now ||
		row->expires_at <= m.now)
		return false;
	for (int i = 0; i < tx->n; i++)
		if (tx->record[i].kind == GRANT && tx->record[i].of == g)
			return true;
	return false;
}

static enum mtr_take
may_take(int64_t amount, int64_t own)
{
	int64_t  spendable = m_available() - w.purse.floor + own;
	int64_t  cells = own;
	bool     behind = m_stale();
	__int128 debt;

	for (int g = 0; g < GRANTS; g++)
	{
		cells += m.g[g].where == LIVE ? m_remaining(g) : 0;
		behind = behind || (m.g[g].where == BEHIND && m.g[g].counted > 0);
	}
	debt = amount > cells ? (__int128) m.debt + amount - cells : 0;
	/* debt that is repaid, and would be back after a crash */
	if (w.t.burned[OF_DEBT] > m.burned_debt)
		debt += w.t.burned[OF_DEBT] - m.burned_debt;
	if (w.purse.mode == MTR_PURSE_HARD && amount > spendable)
		return amount > cells && m_stale() ? MTR_TAKE_AGAIN : MTR_TAKE_SHORT;
	if (amount > cells && behind)
		return MTR_TAKE_AGAIN;
	return amount > cells && debt > MTR_PURSE_MAX ? MTR_TAKE_SHORT
												  : MTR_TAKE_OK;
}

/* own grants, then those in force; returns the rest */
static int64_t
take_cells(int64_t amount, const struct tx *tx, int of[], int64_t part[],
		   int *n)
{
	int list[GRANTS];

	for (int pass = 0; pass < 2; pass++)
	{
		int k = m_sorted(pass == 0 ? INCOMING : LIVE, list);

		for (int i = 0; i < k && amount > 0; i++)
		{
			int64_t x = min64(amount, m_remaining(list[i]));

			if (x == 0 || (pass == 0 && !is_own(tx, list[i])))
				continue;
			m.g[list[i]].taken += x;
			amount -= x;
			of[*n] = list[i];
			part[(*n)++] = x;
		}
	}
	return amount;
}

void
m_drain(int64_t amount, const struct tx *tx, int of[], int64_t part[], int *n)
{
	*n = 0;
	if (w.purse.mode != MTR_PURSE_UNLIMITED)
		(void) take_cells(amount, tx, of, part, n);
}

enum mtr_take
m_take(int64_t amount, const struct tx *tx, int of[], int64_t part[], int *n)
{
	int64_t       own = 0;
	enum mtr_take result;

	*n = 0;
	if (amount > MTR_PURSE_MAX)
		return MTR_TAKE_SHORT;
	if (w.purse.mode == MTR_PURSE_UNLIMITED)
	{
		of[0] = OF_ISSUED;
		part[(*n)++] = amount;
		return MTR_TAKE_OK;
	}
	for (int g = 0; g < GRANTS; g++)
		own += is_own(tx, g) ? m_remaining(g) : 0;
	result = may_take(amount, own);
	if (result != MTR_TAKE_OK)
		return result;
	amount = take_cells(amount, tx, of, part, n);
	if (amount > 0)
	{
		m.debt += amount;
		of[*n] = OF_DEBT;
		part[(*n)++] = amount;
	}
	return MTR_TAKE_OK;
}
