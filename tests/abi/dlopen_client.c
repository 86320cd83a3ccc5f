/* SPDX-License-Identifier: Apache-2.0
 * A user that has only the header: dlopen, one dlsym, and the table. argv[1]: path of libxqa.so.1.
 * With a second argument it only loads and unloads between two marks on stderr (load_trace.sh reads
 * them). */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"
#include "xqa/xqa.h"

typedef const xqaApi_t* (*GetApi)(uint32_t);

static void decodeOneToken(const xqaApi_t* api) {
  static uint16_t rows[4][64] __attribute__((aligned(16)));
  uint16_t *const q = rows[0], *const k = rows[1], *const v = rows[2], *const out = rows[3];
  const int32_t seq_len = 1;
  xqaVariantKey_t key = {0};
  xqaDecodeShape_t shape = {0};
  xqaDecodeArgs_t args = {0};
  xqaDiagnostic_t diagnostic = {0};
  xqaVariant_t variant = NULL;
  xqaVariantInfo_t info = {0};
  size_t bytes = 1;
  int i;
  for (i = 0; i < 64; ++i) v[i] = (uint16_t)(0x3C00 + i); /* f16: 1 and a little more */
  key.struct_size = sizeof(key);
  key.head_dim = 64;
  key.group_size = 1;
  key.q_dtype = XQA_DTYPE_F16;
  shape.struct_size = sizeof(shape);
  shape.batch = 1;
  shape.num_q_heads = 1;
  shape.num_kv_heads = 1;
  shape.page_tokens = 1;
  args.struct_size = sizeof(args);
  args.q = q;
  args.k_cache = k;
  args.v_cache = v;
  args.seq_lens = &seq_len;
  args.out = out;
  diagnostic.struct_size = sizeof(diagnostic);
  info.struct_size = sizeof(info);
  EXPECT(api->findVariant(&key, NULL, &shape, &variant) == XQA_STATUS_SUCCESS);
  EXPECT(api->getVariantInfo(variant, &info) == XQA_STATUS_SUCCESS);
  EXPECT(info.backend == XQA_BACKEND_HOST && info.head_dim == 64);
  EXPECT(api->getWorkspaceSize(variant, NULL, &shape, &bytes, NULL) == XQA_STATUS_SUCCESS);
  EXPECT(bytes == 0);
  EXPECT(api->decode(variant, NULL, &shape, &args, NULL, &diagnostic) == XQA_STATUS_SUCCESS);
  EXPECT(memcmp(out, v, sizeof(rows[0])) == 0); /* attention over one token is that token's V */
}

int main(int argc, char** argv) {
  void* library;
  void* symbol;
  GetApi getApi = NULL;
  const xqaApi_t* api;
  EXPECT(argc >= 2);
  if (argc > 2) fputs("mark: load\n", stderr);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  symbol = dlsym(library, "xqaGetApi");
  EXPECT(symbol != NULL);
  memcpy(&getApi, &symbol, sizeof(getApi)); /* ISO C has no cast from void* to a function */
  EXPECT(getApi(XQA_ABI_VERSION + 1) == NULL);
  api = getApi(XQA_ABI_VERSION);
  EXPECT(api != NULL);
  EXPECT(api->struct_size >= sizeof(xqaApi_t));
  EXPECT(api->abi_version == XQA_ABI_VERSION);
  EXPECT(api->version >= XQA_VERSION);
  EXPECT(strstr(api->getBuildInfo(), "libxqa ") == api->getBuildInfo());
  decodeOneToken(api);
  EXPECT(dlclose(library) == 0);
  if (argc > 2) fputs("mark: done\n", stderr);
  return 0;
}
