/*
 * page.h
 *		Lists page by page: limit and cursor in, Content-Range and Link out.
 */
#ifndef MORTAR_PAGE_H
#define MORTAR_PAGE_H

#include "http.h"

#include "core/cursor.h"

#define MTR_LIMIT_DEFAULT 100
#define MTR_LIMIT_MAX 1000

typedef struct MtrPage
{
	const char       *order;   /* of the list; a cursor is bound to it */
	int64             limit;   /* items on the page, 0 to MTR_LIMIT_MAX */
	bool              limited; /* the client gave a limit: Link keeps it */
	bool              follows; /* after is the last item of the page before */
	bool              more;    /* items follow; next is the last one shown */
	struct mtr_cursor after;
	struct mtr_cursor next;
} MtrPage;

/*
 * Reads the query parameters of a list.  order names how it is sorted and must
 * change when that does.  Raises MT400 for a limit that is no number from 0 to
 * 2^63 - 1 (larger ones than MTR_LIMIT_MAX are clamped), for a cursor that this
 * list did not give out to this tenant (invalid_cursor), and for every other
 * parameter: one that this version does not know must not be ignored, since it
 * would change the answer.
 */
extern void
mtr_page_read(const MtrRequest *req, const char *order, MtrPage *page);

/* how many items to read: one more than the page shows tells whether more come
 */
static inline long
mtr_page_fetch(const MtrPage *page)
{
	return (long) page->limit + 1;
}

/* more items follow; the last one shown has this key of 1 to MTR_CURSOR_KEY_MAX
 * bytes, which is copied */
extern void mtr_page_more(MtrPage *page, const void *key, size_t len);

/*
 * Headers of a page with n items: Content-Range of a first page, and Link of
 * every page but the last.	 Not between SPI_connect and SPI_finish, which would
 * free them.
 */
extern void mtr_page_headers(const MtrRequest *req, MtrResponse *res,
							 MtrPage *page, uint64 n);

#endif /* MORTAR_PAGE_H */
