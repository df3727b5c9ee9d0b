/* fault_io.h - makes the next reads of this process fail. Linking it replaces read() and pread() in
 * the test program; until told otherwise they do what they always do. */
#ifndef CONVOY_TESTS_TOOLS_FAULT_IO_H
#define CONVOY_TESTS_TOOLS_FAULT_IO_H

/* Of the calls from now on, the first skip go through, the next count fail with this errno, the
 * rest go through. */
void fault_reads(int error, int skip, int count);
#endif
