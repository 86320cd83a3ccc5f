/* SPDX-License-Identifier: Apache-2.0
 * Checks of the plain C tests. */
#ifndef XQA_TESTS_ABI_EXPECT_H
#define XQA_TESTS_ABI_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

#endif
