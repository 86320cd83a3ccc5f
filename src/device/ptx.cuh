// SPDX-License-Identifier: Apache-2.0
// Thin wrappers of the instructions that CCCL does not offer, each with its PTX ISA section.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace xqa::ptx {

__device__ __forceinline__ uint32_t sharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// createpolicy ("Data Movement: createpolicy"): cache lines that are read once.
__device__ __forceinline__ uint64_t evictFirstPolicy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// cp.async ("Asynchronous copy: cp.async"): 16 bytes, zeros if valid_bytes is 0.
__device__ __forceinline__ void copyAsync16(uint32_t to, const void* from, int valid_bytes,
                                            uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to),
               "l"(from), "r"(valid_bytes), "l"(policy)
               : "memory");
}
__device__ __forceinline__ void copyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void copyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ldmatrix ("Warp-level matrix load: ldmatrix"): four 8x8 matrices of b16.
__device__ __forceinline__ void loadMatrix4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void loadMatrix4Transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// ex2 ("Floating point instructions: ex2"): 2^x to about 2^-22.
__device__ __forceinline__ float exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// movmatrix ("Warp-level matrix transpose: movmatrix").
__device__ __forceinline__ uint32_t transposeMatrix(uint32_t value) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
  return result;
}

// mma.sync m16n8k16 ("Matrix fragments for mma.m16n8k16"), f32 accumulators.
template <bool kBf16>
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  if constexpr (kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <bool kBf16>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (kBf16) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&v);
  } else {
    const __half2 v = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&v);
  }
}

template <bool kBf16>
__device__ __forceinline__ float unpack(uint32_t low) {
  const uint16_t bits = static_cast<uint16_t>(low);
  if constexpr (kBf16) {
    return __bfloat162float(__ushort_as_bfloat16(bits));
  } else {
    return __half2float(__ushort_as_half(bits));
  }
}

__device__ __forceinline__ uint32_t loadShared32(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// Four e4m3 codes to two pairs of f16 or bf16, exactly; 0x7F and 0xFF give NaN.
template <bool kBf16>
__device__ __forceinline__ void widenE4m3(uint32_t codes, uint32_t& low, uint32_t& high) {
#if __CUDA_ARCH__ >= 890
  // cvt ("Data Movement: cvt"), .e4m3x2
  asm("{\n\t.reg .b16 a, b;\n\tmov.b32 {a, b}, %2;\n\tcvt.rn.f16x2.e4m3x2 %0, a;\n\t"
      "cvt.rn.f16x2.e4m3x2 %1, b;\n\t}"
      : "=r"(low), "=r"(high)
      : "r"(codes));
#else
  // e4m3 and f16 differ in exponent width and bias: shift into place, then scale by 2^8.
  const auto widen = [](uint32_t spread) {
    uint32_t bits = (spread & 0x80008000u) | ((spread & 0x7F007F00u) >> 1);
    const __half2 scaled = __hmul2(*reinterpret_cast<__half2*>(&bits), __float2half2_rn(256.0f));
    return *reinterpret_cast<const uint32_t*>(&scaled) |
           __hgt2_mask(__habs2(scaled), __float2half2_rn(448.0f));  // the NaN codes came out as 480
  };
  low = widen(__byte_perm(codes, 0, 0x1404));
  high = widen(__byte_perm(codes, 0, 0x3424));
#endif
  if constexpr (kBf16) {
    const float2 l = __half22float2(*reinterpret_cast<__half2*>(&low));
    const float2 h = __half22float2(*reinterpret_cast<__half2*>(&high));
    low = pack<true>(l.x, l.y);
    high = pack<true>(h.x, h.y);
  }
}

}  // namespace xqa::ptx
