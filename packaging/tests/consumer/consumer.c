/* SPDX-License-Identifier: Apache-2.0
 * A user of the installed library: checks its version and one result that is known by hand.
 * usage: consumer VERSION */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xqa/xqa.h>

#define HEAD_DIM 8
#define F16_ONE 0x3C00
#define F16_TWO 0x4000
#define F16_THREE 0x4200

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "consumer: %s\n", what);
  exit(1);
}

static void check_version(const char* version) {
  char text[32];
  unsigned number = xqaGetVersion();
  snprintf(text, sizeof text, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
  check(strcmp(text, version) == 0, "the library is not of the version that was installed");
  check(number == XQA_VERSION, "header and library differ in version");
  check(xqaGetApi(XQA_ABI_VERSION) != NULL, "header and library differ in ABI version");
}

/* One request of two tokens, q = 0: both tokens weigh the same, so out is the mean of v and lse is
 * ln 2. */
static void check_decode(void) {
  static uint16_t q[HEAD_DIM] __attribute__((aligned(16)));
  static uint16_t k[2 * HEAD_DIM] __attribute__((aligned(16)));
  static uint16_t v[2 * HEAD_DIM] __attribute__((aligned(16)));
  static uint16_t out[HEAD_DIM] __attribute__((aligned(16)));
  const int32_t seq_lens[1] = {2};
  float lse = 0.0f;
  xqaDiagnostic_t diagnostic = {.struct_size = sizeof diagnostic};
  xqaVariantKey_t key = {
      .struct_size = sizeof key, .head_dim = HEAD_DIM, .group_size = 1, .q_dtype = XQA_DTYPE_F16};
  xqaDecodeShape_t shape = {.struct_size = sizeof shape,
                            .batch = 1,
                            .num_q_heads = 1,
                            .num_kv_heads = 1,
                            .page_tokens = 2};
  xqaDecodeArgs_t args = {.struct_size = sizeof args,
                          .q = q,
                          .k_cache = k,
                          .v_cache = v,
                          .seq_lens = seq_lens,
                          .out = out,
                          .lse = &lse};
  for (int i = 0; i < HEAD_DIM; ++i) {
    v[i] = F16_ONE;
    v[HEAD_DIM + i] = F16_THREE;
  }
  if (xqaDecodeHost(&key, &shape, &args, &diagnostic) != XQA_STATUS_SUCCESS) {
    check(0, diagnostic.message);
  }
  for (int i = 0; i < HEAD_DIM; ++i) check(out[i] == F16_TWO, "out is not the mean of v");
  check(fabsf(lse - 0.69314718f) < 1e-6f, "lse is not ln 2");
}

int main(int argc, char** argv) {
  check(argc == 2, "usage: consumer VERSION");
  check_version(argv[1]);
  check_decode();
  puts(xqaGetBuildInfo());
  return 0;
}
