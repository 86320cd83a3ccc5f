/* SPDX-License-Identifier: Apache-2.0
 * Prints the ABI: offset and size of every struct field, value of every constant. CMakeLists.txt
 * compares it to layout.txt; after an addition, run `abi_layout > tests/abi/layout.txt`. Fails if a
 * field is missing here: the fields of a struct must follow each other without a gap and end where
 * the struct ends. */
#include <stdio.h>

#include "xqa/xqa.h"

static int failures = 0;
static size_t expected_offset = 0;

static void field(const char* name, size_t offset, size_t size) {
  if (offset != expected_offset) {
    fprintf(stderr, "%s: at offset %zu, but the last listed field ends at %zu\n", name, offset,
            expected_offset);
    ++failures;
  }
  expected_offset = offset + size;
  printf("  %-24s %4zu %4zu\n", name, offset, size);
}

static void end(const char* name, size_t size) {
  if (size != expected_offset) {
    fprintf(stderr, "%s: has %zu bytes, but the last listed field ends at %zu\n", name, size,
            expected_offset);
    ++failures;
  }
  expected_offset = 0;
}

#define STRUCT(type) printf("%s %zu\n", #type, sizeof(type))
#define FIELD(type, name) field(#name, offsetof(type, name), sizeof(((type*)0)->name))
#define END(type) end(#type, sizeof(type))
#define VALUE(name) printf("%s %ld\n", #name, (long)(name))

static void inputs(void) {
  STRUCT(xqaDiagnostic_t);
  FIELD(xqaDiagnostic_t, struct_size);
  FIELD(xqaDiagnostic_t, cuda_error);
  FIELD(xqaDiagnostic_t, reserved);
  FIELD(xqaDiagnostic_t, message);
  END(xqaDiagnostic_t);

  STRUCT(xqaDeviceInfo_t);
  FIELD(xqaDeviceInfo_t, struct_size);
  FIELD(xqaDeviceInfo_t, device);
  FIELD(xqaDeviceInfo_t, sm);
  FIELD(xqaDeviceInfo_t, sm_count);
  FIELD(xqaDeviceInfo_t, smem_per_block_bytes);
  FIELD(xqaDeviceInfo_t, smem_per_sm_bytes);
  FIELD(xqaDeviceInfo_t, l2_bytes);
  FIELD(xqaDeviceInfo_t, driver_version);
  FIELD(xqaDeviceInfo_t, reserved);
  FIELD(xqaDeviceInfo_t, memory_bytes);
  FIELD(xqaDeviceInfo_t, name);
  END(xqaDeviceInfo_t);

  STRUCT(xqaVariantKey_t);
  FIELD(xqaVariantKey_t, struct_size);
  FIELD(xqaVariantKey_t, head_dim);
  FIELD(xqaVariantKey_t, group_size);
  FIELD(xqaVariantKey_t, q_dtype);
  FIELD(xqaVariantKey_t, kv_dtype);
  FIELD(xqaVariantKey_t, math_dtype);
  FIELD(xqaVariantKey_t, backend);
  END(xqaVariantKey_t);

  STRUCT(xqaVariantInfo_t);
  FIELD(xqaVariantInfo_t, struct_size);
  FIELD(xqaVariantInfo_t, name);
  FIELD(xqaVariantInfo_t, head_dim);
  FIELD(xqaVariantInfo_t, group_size);
  FIELD(xqaVariantInfo_t, q_dtype);
  FIELD(xqaVariantInfo_t, kv_dtype);
  FIELD(xqaVariantInfo_t, math_dtype);
  FIELD(xqaVariantInfo_t, backend);
  FIELD(xqaVariantInfo_t, available);
  FIELD(xqaVariantInfo_t, sm_min);
  FIELD(xqaVariantInfo_t, sm_max);
  FIELD(xqaVariantInfo_t, features);
  FIELD(xqaVariantInfo_t, row_tile);
  FIELD(xqaVariantInfo_t, smem_bytes);
  END(xqaVariantInfo_t);
}

static void shapes(void) {
  STRUCT(xqaQueryStrides_t);
  FIELD(xqaQueryStrides_t, batch);
  FIELD(xqaQueryStrides_t, token);
  FIELD(xqaQueryStrides_t, head);
  END(xqaQueryStrides_t);

  STRUCT(xqaCacheStrides_t);
  FIELD(xqaCacheStrides_t, page);
  FIELD(xqaCacheStrides_t, token);
  FIELD(xqaCacheStrides_t, head);
  END(xqaCacheStrides_t);

  STRUCT(xqaDecodeShape_t);
  FIELD(xqaDecodeShape_t, struct_size);
  FIELD(xqaDecodeShape_t, batch);
  FIELD(xqaDecodeShape_t, q_tokens);
  FIELD(xqaDecodeShape_t, num_q_heads);
  FIELD(xqaDecodeShape_t, num_kv_heads);
  FIELD(xqaDecodeShape_t, page_tokens);
  FIELD(xqaDecodeShape_t, max_pages);
  FIELD(xqaDecodeShape_t, page_table_stride);
  FIELD(xqaDecodeShape_t, q_strides);
  FIELD(xqaDecodeShape_t, out_strides);
  FIELD(xqaDecodeShape_t, k_strides);
  FIELD(xqaDecodeShape_t, v_strides);
  FIELD(xqaDecodeShape_t, out_dtype);
  FIELD(xqaDecodeShape_t, window);
  FIELD(xqaDecodeShape_t, softmax_scale);
  FIELD(xqaDecodeShape_t, softcap);
  FIELD(xqaDecodeShape_t, q_scale_stride);
  FIELD(xqaDecodeShape_t, k_scale_stride);
  FIELD(xqaDecodeShape_t, v_scale_stride);
  FIELD(xqaDecodeShape_t, reserved);
  END(xqaDecodeShape_t);
}

static void arguments(void) {
  STRUCT(xqaDecodeArgs_t);
  FIELD(xqaDecodeArgs_t, struct_size);
  FIELD(xqaDecodeArgs_t, q);
  FIELD(xqaDecodeArgs_t, q_offsets);
  FIELD(xqaDecodeArgs_t, k_cache);
  FIELD(xqaDecodeArgs_t, v_cache);
  FIELD(xqaDecodeArgs_t, page_table);
  FIELD(xqaDecodeArgs_t, seq_lens);
  FIELD(xqaDecodeArgs_t, sinks);
  FIELD(xqaDecodeArgs_t, mask);
  FIELD(xqaDecodeArgs_t, q_scale);
  FIELD(xqaDecodeArgs_t, k_scale);
  FIELD(xqaDecodeArgs_t, v_scale);
  FIELD(xqaDecodeArgs_t, out);
  FIELD(xqaDecodeArgs_t, out_scale);
  FIELD(xqaDecodeArgs_t, lse);
  FIELD(xqaDecodeArgs_t, workspace);
  FIELD(xqaDecodeArgs_t, workspace_bytes);
  FIELD(xqaDecodeArgs_t, flags);
  FIELD(xqaDecodeArgs_t, reserved);
  END(xqaDecodeArgs_t);

  STRUCT(xqaMergeArgs_t);
  FIELD(xqaMergeArgs_t, struct_size);
  FIELD(xqaMergeArgs_t, num_parts);
  FIELD(xqaMergeArgs_t, head_dim);
  FIELD(xqaMergeArgs_t, rows);
  FIELD(xqaMergeArgs_t, partial_dtype);
  FIELD(xqaMergeArgs_t, out_dtype);
  FIELD(xqaMergeArgs_t, partial_out);
  FIELD(xqaMergeArgs_t, partial_lse);
  FIELD(xqaMergeArgs_t, partial_out_stride);
  FIELD(xqaMergeArgs_t, partial_lse_stride);
  FIELD(xqaMergeArgs_t, out);
  FIELD(xqaMergeArgs_t, lse);
  END(xqaMergeArgs_t);
}

static void table(void) {
  STRUCT(xqaApi_t);
  FIELD(xqaApi_t, struct_size);
  FIELD(xqaApi_t, abi_version);
  FIELD(xqaApi_t, version);
  FIELD(xqaApi_t, getBuildInfo);
  FIELD(xqaApi_t, getStatusName);
  FIELD(xqaApi_t, getStatusString);
  FIELD(xqaApi_t, getDeviceInfo);
  FIELD(xqaApi_t, variantCount);
  FIELD(xqaApi_t, variantAt);
  FIELD(xqaApi_t, getVariantInfo);
  FIELD(xqaApi_t, findVariant);
  FIELD(xqaApi_t, explainKey);
  FIELD(xqaApi_t, getWorkspaceSize);
  FIELD(xqaApi_t, prepareVariant);
  FIELD(xqaApi_t, decode);
  FIELD(xqaApi_t, decodeHost);
  FIELD(xqaApi_t, mergePartials);
  END(xqaApi_t);
}

static void constants(void) {
  VALUE(XQA_ABI_VERSION);
  VALUE(XQA_STATUS_SUCCESS);
  VALUE(XQA_STATUS_INVALID_ARGUMENT);
  VALUE(XQA_STATUS_NOT_FOUND);
  VALUE(XQA_STATUS_ARCH_UNSUPPORTED);
  VALUE(XQA_STATUS_SHAPE_UNSUPPORTED);
  VALUE(XQA_STATUS_FEATURE_UNSUPPORTED);
  VALUE(XQA_STATUS_WORKSPACE_TOO_SMALL);
  VALUE(XQA_STATUS_NO_DEVICE);
  VALUE(XQA_STATUS_CUDA_ERROR);
  VALUE(XQA_DTYPE_DEFAULT);
  VALUE(XQA_DTYPE_F16);
  VALUE(XQA_DTYPE_BF16);
  VALUE(XQA_DTYPE_E4M3);
  VALUE(XQA_DTYPE_F32);
  VALUE(XQA_BACKEND_DEFAULT);
  VALUE(XQA_BACKEND_HOST);
  VALUE(XQA_BACKEND_MMA_SYNC);
  VALUE(XQA_BACKEND_SM90);
  VALUE(XQA_FEATURE_PAGED_CACHE);
  VALUE(XQA_FEATURE_CONTIGUOUS_CACHE);
  VALUE(XQA_FEATURE_CACHE_STRIDES);
  VALUE(XQA_FEATURE_MULTI_TOKEN);
  VALUE(XQA_FEATURE_DRAFT_MASK);
  VALUE(XQA_FEATURE_RAGGED_QUERIES);
  VALUE(XQA_FEATURE_SLIDING_WINDOW);
  VALUE(XQA_FEATURE_SINKS);
  VALUE(XQA_FEATURE_SOFTCAP);
  VALUE(XQA_FEATURE_SCALES);
  VALUE(XQA_FEATURE_E4M3_OUTPUT);
  VALUE(XQA_FEATURE_LSE);
  VALUE(XQA_DECODE_PDL);
  VALUE(XQA_DECODE_PDL_OLD_KV_READY);
}

int main(void) {
  inputs();
  shapes();
  arguments();
  table();
  constants();
  return failures != 0;
}
