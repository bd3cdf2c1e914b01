/*
 * pepper.h
 *		The pepper's life; what uses it is in auth.h.
 */
#ifndef MORTAR_PEPPER_H
#define MORTAR_PEPPER_H

/* the configuration was read again: so is the file, at its next use */
extern void mtr_pepper_forget(void);

#endif /* MORTAR_PEPPER_H */
