/* golden.h - reads the files of tests/golden, which scripts/golden/make_golden.py writes. */
#ifndef CONVOY_TESTS_TOOLS_GOLDEN_H
#define CONVOY_TESTS_TOOLS_GOLDEN_H
#include "tests/tools/network.h"

#define GOLDEN_VALUES 4096

/* Reads "name v v v ..." from a golden file; returns how many values, 0 if the line is not
 * there. */
int golden_read(const char *file, const char *name, double values[GOLDEN_VALUES]);
/* How the network of a golden file was built there; a name that ends in a model.blurpool is of that
 * one. */
ModelOptions golden_options(const char *file, bool training, double width);
/* Fills a network on host memory as scripts/golden/make_golden.py filled that of the file: by the
 * formula, then biases moved by shifts and images of another stream where the file has such.
 * gamma: of network_fill_gamma. */
Status golden_fill(Network *n, const char *file, double gamma);

#endif
