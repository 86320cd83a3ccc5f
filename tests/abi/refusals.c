/* SPDX-License-Identifier: Apache-2.0
 * The refusals as a plain C program meets them, linked to the shared library. */
#include <stdint.h>
#include <string.h>

#include "expect.h"
#include "xqa/xqa.h"

enum { kHeadDim = 64, kGroupSize = 8, kPageTokens = 4 };

static unsigned char memory[65536] __attribute__((aligned(256)));
static unsigned char out[8192] __attribute__((aligned(16)));
static xqaDiagnostic_t diagnostic;
static xqaVariantKey_t key;
static xqaDeviceInfo_t device;
static xqaDecodeShape_t shape;
static xqaDecodeArgs_t args;

static void reset(void) {
  memset(&key, 0, sizeof(key));
  key.struct_size = sizeof(key);
  key.head_dim = kHeadDim;
  key.group_size = kGroupSize;
  key.q_dtype = XQA_DTYPE_F16;
  key.backend = XQA_BACKEND_HOST;
  memset(&device, 0, sizeof(device));
  device.struct_size = sizeof(device);
  device.sm = 90;
  device.sm_count = 132;
  device.smem_per_block_bytes = 232448;
  device.smem_per_sm_bytes = 233472;
  memset(&shape, 0, sizeof(shape));
  shape.struct_size = sizeof(shape);
  shape.batch = 1;
  shape.num_q_heads = kGroupSize;
  shape.num_kv_heads = 1;
  shape.page_tokens = kPageTokens;
  shape.max_pages = 2;
  memset(&args, 0, sizeof(args));
  args.struct_size = sizeof(args);
  args.q = memory;
  args.k_cache = memory;
  args.v_cache = memory;
  args.page_table = (const int32_t*)memory;
  args.seq_lens = (const int32_t*)memory;
  args.out = out;
  memset(&diagnostic, 0, sizeof(diagnostic));
  diagnostic.struct_size = sizeof(diagnostic);
  memset(out, 0xA5, sizeof(out));
}

static xqaVariant_t find(xqaBackend_t backend) {
  xqaVariant_t variant = NULL;
  reset();
  key.backend = backend;
  EXPECT(xqaFindVariant(&key, &device, NULL, &variant) == XQA_STATUS_SUCCESS);
  EXPECT(variant != NULL);
  return variant;
}

static void expectRefused(xqaStatus_t status, xqaStatus_t wanted, const char* sentence) {
  size_t i;
  if (status != wanted || strstr(diagnostic.message, sentence) == NULL) {
    fprintf(stderr, "status %s, message: %s\nwanted %s, %s\n", xqaGetStatusName(status),
            diagnostic.message, xqaGetStatusName(wanted), sentence);
    exit(1);
  }
  for (i = 0; i < sizeof(out); ++i) EXPECT(out[i] == 0xA5);
  reset();
}

static void lookup(void) {
  static const int32_t head_dims[] = {80, 96, 512};
  const xqaVariant_t canary = (xqaVariant_t)(const void*)memory;
  xqaVariant_t variant = canary;
  size_t i;
  for (i = 0; i < sizeof(head_dims) / sizeof(head_dims[0]); ++i) {
    reset();
    key.backend = XQA_BACKEND_MMA_SYNC;
    key.head_dim = head_dims[i];
    EXPECT(xqaFindVariant(&key, &device, NULL, &variant) == XQA_STATUS_NOT_FOUND);
  }
  reset();
  key.backend = XQA_BACKEND_MMA_SYNC;
  device.sm = 75;
  EXPECT(xqaFindVariant(&key, &device, NULL, &variant) == XQA_STATUS_ARCH_UNSUPPORTED);
  reset();
  shape.num_q_heads = 12;
  EXPECT(xqaFindVariant(&key, NULL, &shape, &variant) == XQA_STATUS_SHAPE_UNSUPPORTED);
  EXPECT(xqaFindVariant(NULL, NULL, NULL, &variant) == XQA_STATUS_INVALID_ARGUMENT);
  EXPECT(variant == canary);
}

static void decode(void) {
  const xqaVariant_t host = find(XQA_BACKEND_HOST);
  reset();
  EXPECT(xqaDecode(host, NULL, &shape, &args, NULL, &diagnostic) == XQA_STATUS_SUCCESS);
  EXPECT(out[0] != 0xA5);
#define REFUSED(status, sentence) \
  expectRefused(xqaDecode(host, NULL, &shape, &args, NULL, &diagnostic), status, sentence)
  reset();
  shape.batch = INT32_MAX;
  REFUSED(XQA_STATUS_SHAPE_UNSUPPORTED, "batch is 2147483647");
  shape.num_kv_heads = INT32_MAX;
  REFUSED(XQA_STATUS_SHAPE_UNSUPPORTED, "num_q_heads is 8: it must be");
  shape.k_strides.page = 1;
  shape.k_strides.token = kHeadDim;
  REFUSED(XQA_STATUS_SHAPE_UNSUPPORTED, "k_strides.page is 1: it must be a multiple of 8");
  shape.window = 1;
  args.mask = (const uint32_t*)memory;
  REFUSED(XQA_STATUS_FEATURE_UNSUPPORTED, "mask is given and window is 1");
  args.q = memory + 2;
  REFUSED(XQA_STATUS_INVALID_ARGUMENT, "q must be aligned to 16 bytes");
  args.seq_lens = NULL;
  REFUSED(XQA_STATUS_INVALID_ARGUMENT, "seq_lens is NULL");
  args.flags = 1u << 31;
  REFUSED(XQA_STATUS_INVALID_ARGUMENT, "flags is 0x80000000");
  shape.struct_size = 0;
  REFUSED(XQA_STATUS_INVALID_ARGUMENT, "shape struct_size is 0");
#undef REFUSED
  expectRefused(xqaDecode(host, NULL, &shape, &args, (xqaStream_t)(void*)memory, &diagnostic),
                XQA_STATUS_INVALID_ARGUMENT, "stream is not NULL");
  expectRefused(xqaDecode(NULL, NULL, &shape, &args, NULL, &diagnostic),
                XQA_STATUS_INVALID_ARGUMENT, "variant is NULL");
}

/* A newer caller's struct: accepted while its tail is zero. */
static void newerStruct(void) {
  struct {
    xqaDecodeShape_t known;
    uint64_t added;
  } newer;
  const xqaVariant_t host = find(XQA_BACKEND_HOST);
  reset();
  newer.known = shape;
  newer.known.struct_size = sizeof(newer);
  newer.added = 0;
  EXPECT(xqaDecode(host, NULL, &newer.known, &args, NULL, &diagnostic) == XQA_STATUS_SUCCESS);
  reset();
  newer.added = 1;
  expectRefused(xqaDecode(host, NULL, &newer.known, &args, NULL, &diagnostic),
                XQA_STATUS_INVALID_ARGUMENT, "is not zero: it uses a field of a newer version");
}

static void gpuVariant(void) {
  const xqaVariant_t gpu = find(XQA_BACKEND_MMA_SYNC);
  size_t bytes = 77;
  reset();
  expectRefused(xqaDecode(gpu, NULL, &shape, &args, NULL, &diagnostic), XQA_STATUS_INVALID_ARGUMENT,
                "device is NULL: it is required");
  device.sm = 70;
  expectRefused(xqaGetWorkspaceSize(gpu, &device, &shape, &bytes, &diagnostic),
                XQA_STATUS_ARCH_UNSUPPORTED, "sm is 70");
  EXPECT(bytes == 77);
}

static void names(void) {
  /* Any int may come from C. */
  EXPECT(strcmp(xqaGetStatusName((xqaStatus_t)-1), "XQA_STATUS_UNKNOWN") == 0);
  EXPECT(strcmp(xqaGetStatusName((xqaStatus_t)INT32_MAX), "XQA_STATUS_UNKNOWN") == 0);
  EXPECT(xqaGetStatusString((xqaStatus_t)-1)[0] != '\0');
}

int main(void) {
  lookup();
  decode();
  newerStruct();
  gpuVariant();
  names();
  return 0;
}
