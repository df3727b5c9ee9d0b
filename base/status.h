/* status.h - how every function in Convoy says that it failed.
 *
 * A function that can fail returns Status. OK is 0, errors are negative. The place that knows what
 * went wrong records one sentence with fail(); callers pass the code up with TRY() and may put
 * context in front of the sentence with fail_note(). The sentence is kept per thread and is valid
 * until that thread's next fail(). A thread that hands its result to another copies
 * status_message() into the hand-over. main.c ends with its exit code, which others may ask for.
 */
#ifndef CONVOY_BASE_STATUS_H
#define CONVOY_BASE_STATUS_H

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PRINTF_LIKE(fmt, args)
#endif

typedef enum Status {
    OK = 0,
    ERR_USAGE = -1,    /* command line, config file or key            -> exit 64 */
    ERR_DATA = -2,     /* data or checkpoint that cannot be used      -> exit 65 */
    ERR_HEALTH = -3,   /* a health check failed                       -> exit 69 */
    ERR_INTERNAL = -4, /* a bug, or a library that broke its contract -> exit 70 */
    ERR_MEMORY = -5,   /* out of host or device memory                -> exit 70 */
    ERR_IO = -6,       /* cannot write: disk full, no permission      -> exit 74 */
    ERR_STOPPED = -7,  /* asked to stop, checkpoint saved, run again  -> exit 75 */
    ERR_PEER = -8,     /* a peer was lost or hangs                    -> exit 76 */
    ERR_ENV = -9,      /* environment: no such device, library, cores -> exit 78 */
    ERR_DIVERGED = -10 /* training: a loss or weight is not finite    -> exit 71 */
} Status;

/* Records the sentence for this thread and returns code, so that `return fail(ERR_DATA, "%s: not a
 * JPEG", path);` reads well. code must not be OK. Sentences longer than 1023 bytes are cut. */
Status fail(Status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "context: " in front of this thread's recorded sentence; returns code unchanged. */
Status fail_note(Status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* this thread's sentence, "" if none; borrowed until the next fail() */
const char *status_message(void);
const char *status_name(Status status); /* "ok", "usage", "data", ... for logs and the done event */
int status_exit_code(Status status);    /* the table above */

/* Returns from the calling function with the error of expr, if it has one. Other macros that return
 * begin with TRY_ and hand on what a library says. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        Status try_status_ = (expr);                                                               \
        if (try_status_ != OK) return try_status_;                                                 \
    } while (0)

/* A local variable `StrBuf text FREED_BY(str_free) = { 0 };` is given to the function, by its
 * address, wherever its scope ends: at every return too. The last one declared goes first. It has a
 * value from its declaration on. */
#define FREED_BY(function) __attribute__((cleanup(function)))
/* Makes FUNCTION_at for FREED_BY of a pointer to Type, which function takes. */
#define FREED_BY_POINTER(Type, function)                                                           \
    static inline void function##_at(Type **at)                                                    \
    {                                                                                              \
        function(*at);                                                                             \
    }

/* Who writes a broken invariant down from now on; before, it goes to stderr. log_open() asks for
 * it, so that nothing below the log needs the log. */
typedef void (*StatusTell)(const char *file, int line, const char *cond);
void status_tell_broken(StatusTell tell);

/* For broken invariants only, never for user input: tells file, line and text and aborts. */
#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(__FILE__, __LINE__, #cond))
#ifdef __cplusplus
[[noreturn]] void assert_failed(const char *file, int line, const char *cond);
#else
_Noreturn void assert_failed(const char *file, int line, const char *cond);
#endif

#endif
