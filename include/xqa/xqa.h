/* SPDX-License-Identifier: Apache-2.0
 *
 * libxqa: decode attention (MQA and GQA over a KV cache), compiled ahead of time, behind a C ABI.
 *
 * This header is the manual. It is C99, includes no CUDA header and may be included from C++.
 *
 * Typical use: once per attention layer shape
 *     xqaGetDeviceInfo -> xqaFindVariant -> xqaGetWorkspaceSize -> xqaPrepareVariant
 * and then once per step, on the caller's stream, captured in a CUDA graph or not
 *     xqaDecode
 *
 * Conventions that hold for every function:
 *   - Thread safety: every function may be called from any thread at any time. The library has no
 * mutable state of its own: no environment variables, no caches, no logging, no allocation, no host
 *     synchronisation. Loading it creates no CUDA context and does not touch the driver.
 *   - Bad input is refused before anything is launched or written. The status says which kind of
 * fault it is; the optional xqaDiagnostic_t receives a sentence that names the field and the rule.
 *   - Every struct begins with struct_size, which the caller sets to sizeof(the struct). A smaller
 * struct (older caller) reads as if its missing tail were zero. A larger one (newer caller) is
 * accepted while the tail this library does not know is zero. Zero always means the documented
 * default.
 *   - Sizes and strides count elements unless the name says _bytes. Strides are signed 64-bit.
 *   - Enum values are pinned: they never change and are never reused.
 */
#ifndef XQA_XQA_H
#define XQA_XQA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XQA_VERSION_MAJOR 1
#define XQA_VERSION_MINOR 0
#define XQA_VERSION_PATCH 0
/* 10000 * major + 100 * minor + patch; compare with xqaGetVersion(). */
#define XQA_VERSION (XQA_VERSION_MAJOR * 10000 + XQA_VERSION_MINOR * 100 + XQA_VERSION_PATCH)
/* Pass to xqaGetApi(). Changes only with the SONAME (libxqa.so.1). */
#define XQA_ABI_VERSION 1

#if defined(XQA_BUILDING_LIBRARY) && defined(__GNUC__)
#define XQA_API __attribute__((visibility("default")))
#else
#define XQA_API
#endif

/* The same type as cudaStream_t and CUstream. NULL is the default stream of the current device. */
typedef struct CUstream_st* xqaStream_t;

/* One entry of the registry: constant data inside the library, valid until the library is unloaded.
 */
typedef const struct xqaVariant* xqaVariant_t;

/* ---- Enumerations
 * -------------------------------------------------------------------------------- */

typedef enum xqaStatus {
  XQA_STATUS_SUCCESS = 0,
  XQA_STATUS_INVALID_ARGUMENT =
      1,                    /* a NULL that is required, a value out of its range, a bad pointer */
  XQA_STATUS_NOT_FOUND = 2, /* no variant with this key is in the library */
  XQA_STATUS_ARCH_UNSUPPORTED = 3,  /* the variant exists, but not for this device */
  XQA_STATUS_SHAPE_UNSUPPORTED = 4, /* the variant cannot honour a size or stride of this shape */
  XQA_STATUS_FEATURE_UNSUPPORTED =
      5, /* the variant cannot honour an argument or combination of arguments */
  XQA_STATUS_WORKSPACE_TOO_SMALL = 6, /* workspace_bytes is below xqaGetWorkspaceSize() */
  XQA_STATUS_NO_DEVICE = 7, /* no CUDA driver, no such device, or a library built without CUDA */
  XQA_STATUS_CUDA_ERROR = 8 /* the CUDA runtime reported an error: see xqaDiagnostic_t.cuda_error */
} xqaStatus_t;

typedef enum xqaDtype {
  XQA_DTYPE_DEFAULT = 0, /* each field that takes a dtype says what its default is */
  XQA_DTYPE_F16 = 1,     /* IEEE binary16 */
  XQA_DTYPE_BF16 = 2,    /* bfloat16 */
  XQA_DTYPE_E4M3 =
      3,            /* FP8 E4M3 (OCP "FN": no infinity, 0x7F and 0xFF are NaN, largest value 448) */
  XQA_DTYPE_F32 = 4 /* IEEE binary32: partial results of xqaMergePartials only */
} xqaDtype_t;

typedef enum xqaBackend {
  XQA_BACKEND_DEFAULT = 0, /* the library chooses the fastest one that the device and shape allow */
  XQA_BACKEND_HOST = 1,    /* float64 reference on the host; all pointers are host memory */
  XQA_BACKEND_MMA_SYNC = 2, /* portable tensor-core kernels, compute capability 8.0 and up */
  XQA_BACKEND_SM90 = 3      /* Hopper kernels (TMA, wgmma), compute capability 9.0: not built yet */
} xqaBackend_t;

/* Bits of xqaVariantInfo_t.features: the run-time arguments that a variant honours. */
enum {
  XQA_FEATURE_PAGED_CACHE = 1u << 0,      /* page_table, any page_tokens from 1 up */
  XQA_FEATURE_CONTIGUOUS_CACHE = 1u << 1, /* page_table == NULL */
  XQA_FEATURE_CACHE_STRIDES = 1u << 2,    /* any K and V strides (see xqaDecodeShape_t) */
  XQA_FEATURE_MULTI_TOKEN = 1u << 3,      /* q_tokens > 1, causal */
  XQA_FEATURE_DRAFT_MASK = 1u << 4,       /* mask (tree drafts) */
  XQA_FEATURE_RAGGED_QUERIES = 1u << 5,   /* q_offsets */
  XQA_FEATURE_SLIDING_WINDOW = 1u << 6,   /* window */
  XQA_FEATURE_SINKS = 1u << 7,            /* sinks */
  XQA_FEATURE_SOFTCAP = 1u << 8,          /* softcap */
  XQA_FEATURE_SCALES = 1u << 9,           /* q_scale, k_scale, v_scale, per tensor or per KV head */
  XQA_FEATURE_E4M3_OUTPUT = 1u << 10,     /* out_dtype == XQA_DTYPE_E4M3 */
  XQA_FEATURE_LSE = 1u << 11              /* lse */
};

/* Bits of xqaDecodeArgs_t.flags. */
enum {
  /* Launch with programmatic dependent launch (compute capability 9.0 and up; ignored below): the
   * kernel may start before its predecessor in the stream has finished. Nothing that any earlier
   * kernel wrote is read before the dependency wait. */
  XQA_DECODE_PDL = 1u << 0,
  /* With XQA_DECODE_PDL: the predecessor writes only q and the newest q_tokens tokens of the cache,
   * so the library may read lengths, page table, scales and older tokens before the dependency
   * wait. A permission: a variant may wait all the same. */
  XQA_DECODE_PDL_OLD_KV_READY = 1u << 1
};

/* ---- Structs
 * ------------------------------------------------------------------------------------- */

/* Receives details of a failure. Optional wherever it is taken (NULL: only the status is returned).
 * Written on failure only; owned by the caller, host memory. */
typedef struct xqaDiagnostic {
  size_t struct_size;
  int32_t cuda_error; /* cudaError_t of the failing call, 0 if CUDA was not involved */
  int32_t reserved;
  char message[240]; /* one sentence, zero-terminated: the field at fault and the rule it breaks */
} xqaDiagnostic_t;

/* What the library needs to know of a device. Fill it with xqaGetDeviceInfo() once and pass it to
 * every call that takes one; it is read only. On a partition of a GPU (MIG, green context) sm_count
 * may be lowered to the number of SMs that the stream can use. Host memory. */
typedef struct xqaDeviceInfo {
  size_t struct_size;
  int32_t device;               /* CUDA device ordinal */
  int32_t sm;                   /* compute capability, 10 * major + minor: 90 for H100 and H200 */
  int32_t sm_count;             /* streaming multiprocessors */
  int32_t smem_per_block_bytes; /* largest opt-in dynamic shared memory of a block */
  int32_t smem_per_sm_bytes;    /* shared memory of an SM */
  int32_t l2_bytes;
  int32_t driver_version; /* CUDA version of the driver, 1000 * major + 10 * minor */
  int32_t reserved;
  int64_t memory_bytes; /* device memory in total */
  char name[64];        /* zero-terminated */
} xqaDeviceInfo_t;

/* The tuple that names a variant. Lookup is exact: nothing is rounded or replaced. */
typedef struct xqaVariantKey {
  size_t struct_size;
  int32_t head_dim;    /* 64, 128 or 256 */
  int32_t group_size;  /* query heads per KV head (GQA ratio), 1 to 128 */
  xqaDtype_t q_dtype;  /* F16 or BF16; required */
  xqaDtype_t kv_dtype; /* q_dtype or E4M3; default: q_dtype */
  xqaDtype_t
      math_dtype;       /* operand type of the matrix products: q_dtype or E4M3; default: q_dtype */
  xqaBackend_t backend; /* default: the library chooses */
} xqaVariantKey_t;

typedef struct xqaVariantInfo {
  size_t struct_size;
  const char* name; /* for example mma_sync_d128_g8_qf16_kve4m3_mf16; owned by the library */
  int32_t head_dim;
  int32_t group_size;
  xqaDtype_t q_dtype;
  xqaDtype_t kv_dtype;
  xqaDtype_t math_dtype;
  xqaBackend_t backend;
  int32_t
      available; /* 1: can be launched by this build; 0: listed only (library built without CUDA) */
  int32_t
      sm_min; /* compute capabilities served, 10 * major + minor; 0 and 0 for the host backend */
  int32_t sm_max;    /* 0: no upper bound */
  uint32_t features; /* XQA_FEATURE_ bits */
  int32_t
      row_tile; /* query rows (group_size * q_tokens) that one kernel tile holds at q_tokens == 1 */
  int32_t smem_bytes; /* dynamic shared memory of a block at q_tokens == 1 */
} xqaVariantInfo_t;

/* Strides of q and out in elements; head_dim is contiguous. For q any sign and overlap is legal, so
 * a slice of a packed QKV buffer is. All zero: packed [batch, q_tokens, num_q_heads, head_dim], or
 * [total, num_q_heads, head_dim] with q_offsets (the batch stride is then not used). Every stride
 * must be a multiple of 8 elements, and rows of out must not overlap; a stride that takes one index
 * only is not judged. */
typedef struct xqaQueryStrides {
  int64_t batch;
  int64_t token;
  int64_t head;
} xqaQueryStrides_t;

/* Strides of a cache in elements; head_dim is contiguous. NHD, HND, K and V interleaved in one
 * buffer, padded pages: all are just strides. All zero: packed NHD, [page, page_tokens,
 * num_kv_heads, head_dim]. Every stride must be a multiple of 16 bytes. */
typedef struct xqaCacheStrides {
  int64_t page; /* for a contiguous cache: from one request to the next */
  int64_t token;
  int64_t head;
} xqaCacheStrides_t;

/* Everything about a call that the host knows when it captures a graph: sizes, layouts, constants.
 * Host memory. What changes from step to step is in device memory (xqaDecodeArgs_t). */
typedef struct xqaDecodeShape {
  size_t struct_size;
  int32_t batch;        /* requests; 0 is a legal call that does nothing */
  int32_t q_tokens;     /* query tokens of each request, the maximum with q_offsets; default 1 */
  int32_t num_q_heads;  /* num_kv_heads * group_size */
  int32_t num_kv_heads; /* 1 and up */
  int32_t page_tokens;  /* tokens in a page, any value from 1 up; contiguous cache: capacity of a
                           request */
  int32_t max_pages;    /* entries in a row of page_table; contiguous cache: 0 or 1 */
  int64_t
      page_table_stride; /* from one row of page_table to the next, in entries; default max_pages */
  xqaQueryStrides_t q_strides;
  xqaQueryStrides_t out_strides;
  xqaCacheStrides_t k_strides;
  xqaCacheStrides_t v_strides;
  xqaDtype_t out_dtype; /* q_dtype or E4M3 (saturating); default q_dtype */
  int32_t window;       /* sliding window in tokens, the query's own token counted; 0: none */
  float softmax_scale;  /* multiplies q . k; 0: 1 / sqrt(head_dim) */
  float softcap;        /* c > 0: logits become c * tanh(logit / c); 0: none */
  int32_t
      q_scale_stride; /* 0: q_scale holds one value; 1: one value per KV head. Likewise below. */
  int32_t k_scale_stride;
  int32_t v_scale_stride;
  int32_t reserved;
} xqaDecodeShape_t;

/* Pointers of a call. For GPU variants all are device memory (or managed, or mapped host memory) of
 * the device the stream belongs to; for the host backend all are host memory. The struct itself is
 * host memory and is not kept. Pointers must be aligned to their element, q, out, k_cache and
 * v_cache to 16 bytes. */
typedef struct xqaDecodeArgs {
  size_t struct_size;
  const void* q; /* q_dtype [batch, q_tokens, num_q_heads, head_dim] by q_strides; required */
  const int32_t* q_offsets; /* [batch + 1], not decreasing from 0: request b owns rows q_offsets[b]
                               to q_offsets[b + 1] - 1 of q, out, lse and mask; at most q_tokens,
                               may be none. NULL: every request has q_tokens rows */
  const void* k_cache;      /* kv_dtype, by k_strides; required */
  const void* v_cache;      /* kv_dtype, by v_strides; required */
  const int32_t*
      page_table; /* [batch, max_pages] page ids, 0 and up. Only the entries of pages that hold a
                     visible token are used; others may hold anything. NULL: contiguous cache */
  const int32_t*
      seq_lens; /* [batch] KV tokens including this call's query tokens; at most the capacity
                   (page_tokens * max_pages), longer is cut to it, negative is 0. Required */
  const float*
      sinks; /* [num_q_heads] extra logit in natural-log units, after all scaling; or NULL */
  const uint32_t* mask; /* [batch, q_tokens, words], ragged [total, words], words = ceil(q_tokens /
                           32): bit j % 32 of word j / 32 of row i: draft token i sees draft token
                           j. NULL: causal. Not together with window */
  const float* q_scale; /* by q_scale_stride; NULL: 1. Likewise below */
  const float* k_scale;
  const float* v_scale;
  void* out;              /* out_dtype, by out_strides; every row is written; required */
  const float* out_scale; /* one value, multiplies the result before it is rounded; NULL: 1 */
  float* lse; /* [batch, q_tokens, num_q_heads], ragged [total, num_q_heads]: natural log of the
                 softmax denominator, sink included; or NULL */
  void* workspace; /* aligned to 256 bytes; contents undefined before and after; one per call in
                      flight; NULL if xqaGetWorkspaceSize() is 0 */
  size_t workspace_bytes;
  uint32_t flags; /* XQA_DECODE_ bits */
  uint32_t reserved;
} xqaDecodeArgs_t;

/* A merge of partial results over disjoint parts of the KV sequence (several caches, several GPUs).
 */
typedef struct xqaMergeArgs {
  size_t struct_size;
  int32_t num_parts; /* 1 and up */
  int32_t head_dim;  /* 8 and up, a multiple of 8 */
  int64_t rows;      /* batch * q_tokens * num_q_heads; 0 is a legal call that does nothing */
  xqaDtype_t partial_dtype; /* F16, BF16 or F32; required */
  xqaDtype_t out_dtype;     /* F16, BF16, F32 or E4M3 (saturating); default partial_dtype */
  const void* partial_out;  /* partial_dtype [num_parts, rows, head_dim], aligned to 16 bytes */
  const float* partial_lse; /* [num_parts, rows], natural log; -inf: the part has no visible key */
  int64_t partial_out_stride; /* from one part to the next in elements, a multiple of 8; default
                                 rows * head_dim */
  int64_t partial_lse_stride; /* likewise; default rows */
  void* out;                  /* out_dtype [rows, head_dim], aligned to 16 bytes; required */
  float* lse;                 /* [rows] or NULL; may be the first part of partial_lse */
} xqaMergeArgs_t;

/* ---- Library
 * ------------------------------------------------------------------------------------- */

/* Version of the loaded library: 10000 * major + 100 * minor + patch. */
XQA_API uint32_t xqaGetVersion(void);

/* One line: version, toolkit and ptxas version, SM list, hash of the variant matrix. Owned by the
 * library. */
XQA_API const char* xqaGetBuildInfo(void);

/* "XQA_STATUS_SUCCESS" and so on; "XQA_STATUS_UNKNOWN" for a value that is not of the enum. Never
 * NULL. */
XQA_API const char* xqaGetStatusName(xqaStatus_t status);

/* A sentence in English. Never NULL. */
XQA_API const char* xqaGetStatusString(xqaStatus_t status);

/* Describes a CUDA device. The first CUDA call of the process may initialise the driver; no context
 * is created. device: ordinal as in cudaSetDevice.   info: out, required, its struct_size set by
 * the caller. Errors: INVALID_ARGUMENT, NO_DEVICE, CUDA_ERROR. */
XQA_API xqaStatus_t xqaGetDeviceInfo(int32_t device, xqaDeviceInfo_t* info,
                                     xqaDiagnostic_t* diagnostic);

/* ---- Variants
 * ------------------------------------------------------------------------------------ */

/* All variants, in the order of their keys: index 0 to xqaVariantCount() - 1. */
XQA_API uint32_t xqaVariantCount(void);
/* NULL if index is out of range. */
XQA_API xqaVariant_t xqaVariantAt(uint32_t index);

/* Errors: INVALID_ARGUMENT (NULL, or not a variant of this library). */
XQA_API xqaStatus_t xqaGetVariantInfo(xqaVariant_t variant, xqaVariantInfo_t* info);

/* Finds the variant for a key. Under 100 ns.
 *   key:     required.
 *   device:  NULL: there is no GPU; backend DEFAULT then means the host backend.
 *   shape:   may be NULL. With a shape, backend DEFAULT takes the fastest variant that honours it.
 *   variant: out, required; untouched on failure.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, ARCH_UNSUPPORTED, SHAPE_UNSUPPORTED (the shape contradicts
 * the key). */
XQA_API xqaStatus_t xqaFindVariant(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device,
                                   const xqaDecodeShape_t* shape, xqaVariant_t* variant);

/* Writes a sentence on what xqaFindVariant(key, device, NULL) answers and why: the rule that
 * excludes the key and the nearest key that is there. At most capacity bytes, zero-terminated if
 * capacity > 0. Returns the length of the whole text without the zero, as snprintf does. text may
 * be NULL if capacity is 0. */
XQA_API size_t xqaExplainKey(const xqaVariantKey_t* key, const xqaDeviceInfo_t* device, char* text,
                             size_t capacity);

/* ---- Decode
 * -------------------------------------------------------------------------------------- */

/* Bytes of workspace for xqaDecode: an upper bound that depends on variant, device and shape only,
 * never on pointers or lengths, and never falls as batch or q_tokens grows. 0 for the host backend.
 *   device: may be NULL for a host variant only.
 * Errors: INVALID_ARGUMENT, ARCH_UNSUPPORTED, SHAPE_UNSUPPORTED, FEATURE_UNSUPPORTED. */
XQA_API xqaStatus_t xqaGetWorkspaceSize(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                                        const xqaDecodeShape_t* shape, size_t* bytes,
                                        xqaDiagnostic_t* diagnostic);

/* Loads a variant's kernels into the device's primary context, so that xqaDecode neither loads nor
 * allocates. Call it before capturing a graph. Changes the current device and restores it. Does
 * nothing for a host variant. Errors: INVALID_ARGUMENT, NO_DEVICE, ARCH_UNSUPPORTED, CUDA_ERROR. */
XQA_API xqaStatus_t xqaPrepareVariant(xqaVariant_t variant, int32_t device,
                                      xqaDiagnostic_t* diagnostic);

/* Computes decode attention. For request b, query token i of n, query head h of KV head g:
 *   position   p = seq_len - n + i
 *   visible    t < seq_len - n; draft token j at seq_len - n + j if mask has bit j (no mask: j <=
 * i); with window W also t > p - W. A row with p < 0 sees nothing. logit      s_t = softmax_scale *
 * q_scale[g] * k_scale[g] * (q . k_t), then softcap * tanh(s_t / softcap) m          max over
 * visible s_t and sinks[h];   d = sum exp(s_t - m) + exp(sinks[h] - m) out        out_scale *
 * v_scale[g] * sum exp(s_t - m) * v_t / d, rounded once lse        m + log(d) A row that sees no
 * key gets out = 0 and lse = sinks[h], or -inf without sinks. Cache slots that no row sees have no
 * influence, whatever they hold. (Attention with sinks: Xiao et al. 2023, as used by gpt-oss;
 * softcap: Gemma 2 report, 2024; the running maximum and merge of partials: Milakov and Gimelshein
 * 2018, Dao 2023.)
 *
 * GPU variants: asynchronous on stream, whose device must be current and be device->device. Nothing
 * that the host chooses depends on lengths, so a captured graph stays right as sequences grow.
 * Legal in a global-mode capture after xqaPrepareVariant. Results are deterministic: same input,
 * shape and device model, same bits. Host variants: host memory, finished on return, stream must be
 * NULL. variant, shape, args: required.   device: required for a GPU variant.   diagnostic: may be
 * NULL. Errors: all but NOT_FOUND. A sticky error of an earlier CUDA call is reported and not
 * cleared. */
XQA_API xqaStatus_t xqaDecode(xqaVariant_t variant, const xqaDeviceInfo_t* device,
                              const xqaDecodeShape_t* shape, const xqaDecodeArgs_t* args,
                              xqaStream_t stream, xqaDiagnostic_t* diagnostic);

/* The same call on host memory in float64, no GPU needed: the specification in executable form.
 * key->backend is not used. Any head_dim from 8 to 1024 that is a multiple of 8 and any group_size
 * are accepted. Errors: INVALID_ARGUMENT, SHAPE_UNSUPPORTED, FEATURE_UNSUPPORTED. */
XQA_API xqaStatus_t xqaDecodeHost(const xqaVariantKey_t* key, const xqaDecodeShape_t* shape,
                                  const xqaDecodeArgs_t* args, xqaDiagnostic_t* diagnostic);

/* Merges partial results on the GPU, in the order of the parts:
 *   lse = log sum_i exp(lse_i),   out = sum_i exp(lse_i - lse) * out_i.
 * A sink must be in exactly one part. Rows whose parts are all -inf get out = 0 and lse = -inf.
 * Pointers are device memory; asynchronous on stream, whose device must be current; legal in a
 * capture after any xqaPrepareVariant on the device. Needs compute capability 8.0. Errors:
 * INVALID_ARGUMENT, NO_DEVICE, CUDA_ERROR. */
XQA_API xqaStatus_t xqaMergePartials(const xqaMergeArgs_t* args, xqaStream_t stream,
                                     xqaDiagnostic_t* diagnostic);

/* ---- Function table
 * ------------------------------------------------------------------------------ */

/* For users that dlopen: one dlsym("xqaGetApi") is enough. Append-only: check struct_size before
 * using a member that a later minor version added. */
typedef struct xqaApi {
  size_t struct_size;
  uint32_t abi_version; /* XQA_ABI_VERSION of the library */
  uint32_t version;     /* xqaGetVersion() */
  const char* (*getBuildInfo)(void);
  const char* (*getStatusName)(xqaStatus_t);
  const char* (*getStatusString)(xqaStatus_t);
  xqaStatus_t (*getDeviceInfo)(int32_t, xqaDeviceInfo_t*, xqaDiagnostic_t*);
  uint32_t (*variantCount)(void);
  xqaVariant_t (*variantAt)(uint32_t);
  xqaStatus_t (*getVariantInfo)(xqaVariant_t, xqaVariantInfo_t*);
  xqaStatus_t (*findVariant)(const xqaVariantKey_t*, const xqaDeviceInfo_t*,
                             const xqaDecodeShape_t*, xqaVariant_t*);
  size_t (*explainKey)(const xqaVariantKey_t*, const xqaDeviceInfo_t*, char*, size_t);
  xqaStatus_t (*getWorkspaceSize)(xqaVariant_t, const xqaDeviceInfo_t*, const xqaDecodeShape_t*,
                                  size_t*, xqaDiagnostic_t*);
  xqaStatus_t (*prepareVariant)(xqaVariant_t, int32_t, xqaDiagnostic_t*);
  xqaStatus_t (*decode)(xqaVariant_t, const xqaDeviceInfo_t*, const xqaDecodeShape_t*,
                        const xqaDecodeArgs_t*, xqaStream_t, xqaDiagnostic_t*);
  xqaStatus_t (*decodeHost)(const xqaVariantKey_t*, const xqaDecodeShape_t*, const xqaDecodeArgs_t*,
                            xqaDiagnostic_t*);
  xqaStatus_t (*mergePartials)(const xqaMergeArgs_t*, xqaStream_t, xqaDiagnostic_t*);
} xqaApi_t;

/* The table, constant for the life of the library, or NULL if abi_version is not the library's. */
XQA_API const xqaApi_t* xqaGetApi(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif /* XQA_XQA_H */
