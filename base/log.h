/* log.h - one line per event, to the console and to the run's log.txt.
 *
 * Thread-safe. Before log_open() lines go to stderr only. Console: info to stdout, warnings
 * ("convoy train: warning: ...") and errors ("convoy train: error: ...") to stderr. Ranks other
 * than 0 write warnings and info only to the log file if they have one, never to the console;
 * functions whose names end in _here are for what they alone know. A line that would break the live
 * progress line first clears it: log_progress() owns that line.
 *
 * What comes from files and names passes here on its way to a terminal, so that all that steers one
 * is shown escaped (str_add_visible); in lines newlines too. In what log_print() gets, a text of
 * others is to be made one line first. */
#ifndef CONVOY_BASE_LOG_H
#define CONVOY_BASE_LOG_H
#include "base/status.h"
#include "base/str.h"
#include <stdbool.h>

typedef enum LogLevel { LOG_DEBUG, LOG_DETAIL, LOG_INFO, LOG_WARNING, LOG_ERROR } LogLevel;

/* path may be NULL (console only); the file is appended to and line buffered, and that it takes no
 * more lines is told once. min_level applies to the console; the file gets everything from
 * LOG_DETAIL up. */
Status log_open(const char *path, int rank, LogLevel min_level);
/* A second file beside that of log_open(), until the next log_open() or log_close(). It alone gets
 * log_note(). ERR_IO.
 */
Status log_add_file(const char *path);
/* What files would get from here on is kept in memory (the first megabyte), until log_release()
 * writes it to those that are open then, none of them too. log_open() in between keeps it. */
void log_hold(void);
void log_release(void);
void log_close(void);
/* What lines of warnings and errors begin with: "convoy train"; "convoy" before. To be set while
 * there is one thread. */
void log_set_program(const char *name);
const char *log_program(void);
/* From the next log_open() on, a console that shows LOG_INFO shows everything below it too. */
void log_set_verbose(void);
void log_debug(const char *format, ...) PRINTF_LIKE(1, 2);
/* How the engine does its work: for the log file, and for a console that is verbose. */
void log_detail(const char *format, ...) PRINTF_LIKE(1, 2);
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);
void log_note(const char *format, ...) PRINTF_LIKE(1, 2); /* for the file of log_add_file() alone */
void log_warning(const char *format, ...) PRINTF_LIKE(1, 2);
/* A warning about what only this rank knows (one of its files): on every rank's console, with its
 * rank. */
void log_warning_here(const char *format, ...) PRINTF_LIKE(1, 2);
/* printed on every rank that calls it */
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);
/* For commands whose answer is lines of log_info(): ERR_IO if standard output did not take one. */
Status log_check_output(void);
int log_rank(void); /* as given to log_open(); 0 before */
/* Rank 0 writes text to stdout: the answer of a command that was asked for one (inspect, bench,
 * --help). Lines and tabs are as they are, see below for the rest. ERR_IO if it cannot. */
Status log_print(const char *text);
/* The same of text, which it frees, where status is OK; else status. */
Status log_print_text(Status status, StrBuf *text);
Status log_print_screen(const char *text); /* the same in the place of what a terminal shows */
bool log_console_is_terminal(void);        /* stdout is a terminal and this is rank 0 */
/* Whether it is time for the next log_progress(); *shown_s, when the last was due, is then now. */
bool log_progress_due(double *shown_s);
/* Rank 0 only: on a terminal redraws one live line in place, cut to its width; elsewhere prints a
 * plain line. "" clears the live line. */
void log_progress(const char *format, ...) PRINTF_LIKE(1, 2);
#endif
