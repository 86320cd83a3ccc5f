# SPDX-License-Identifier: Apache-2.0
"""Which variants there are: the values of every field of a key, and rules that exclude tuples. Data only.

Fields have the names of xqaVariantKey_t, values are written as in variant names.
"""

AXES = {
    "backend": ("host", "mma_sync", "sm90"),
    "head_dim": (64, 128, 256),
    "q_dtype": ("f16", "bf16"),
    "kv_dtype": ("f16", "bf16", "e4m3"),
    "math_dtype": ("f16", "bf16", "e4m3"),
    "group_size": tuple(range(1, 129)),
}

# (values that exclude a tuple when it has all of them, reason). The reason is what xqaExplainKey tells the user
# after "NAME is not in this library: ", so it says what to do instead.
RULES = (
    ({"q_dtype": "f16", "kv_dtype": "bf16"},
     "a 16-bit cache must have the query's type: use an f16 or e4m3 cache with f16 queries"),
    ({"q_dtype": "bf16", "kv_dtype": "f16"},
     "a 16-bit cache must have the query's type: use a bf16 or e4m3 cache with bf16 queries"),
    ({"q_dtype": "f16", "math_dtype": "bf16"},
     "16-bit math must be in the query's type: use f16 math with f16 queries"),
    ({"q_dtype": "bf16", "math_dtype": "f16"},
     "16-bit math must be in the query's type: use bf16 math with bf16 queries"),
    ({"kv_dtype": "f16", "math_dtype": "e4m3"},
     "e4m3 math needs an e4m3 cache: use 16-bit math with a 16-bit cache"),
    ({"kv_dtype": "bf16", "math_dtype": "e4m3"},
     "e4m3 math needs an e4m3 cache: use 16-bit math with a 16-bit cache"),
    ({"backend": "mma_sync", "math_dtype": "e4m3"},
     "mma_sync with e4m3 math is not built yet: use 16-bit math, which reads the same e4m3 cache at 16-bit"
     " accuracy"),
    ({"backend": "sm90"},
     "sm90 is not built yet: use mma_sync, which serves compute capability 9.0 too"),
)

# Backends made of kernels. Their code depends on the group size only through the tile that holds the query rows.
KERNEL_BACKENDS = ("mma_sync",)
ROW_TILES = (8, 16, 32, 64)

# SMs with machine code, by the dtype of the cache: 8.9 converts e4m3 in hardware and runs 16-bit code of 8.0.
SMS = {
    "f16": (80, 90, 100, 120),
    "bf16": (80, 90, 100, 120),
    "e4m3": (80, 89, 90, 100, 120),
}
PTX_SM = 90
