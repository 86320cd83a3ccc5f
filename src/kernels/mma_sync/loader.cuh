// SPDX-License-Identifier: Apache-2.0
// Fills a team's ring with K and V tiles, ahead of the math and across the ends of items.
#pragma once

#include "device/ptx.cuh"
#include "kernels/mma_sync/config.cuh"

namespace xqa::mma_sync {

// Walks the block's tiles; K and V slots alternate. Page ids are read one tile ahead, as a lookup
// from L2 takes about as long as a tile's math.
template <typename C>
class Loader {
 public:
  // slice: which kTokens of a tile; member: this warp among those that fill the slice's rings
  // together. rings: shared address of the first one, one ring a KV head.
  __device__ Loader(const DecodeParams& params, const Cursor& start, int64_t tiles, uint32_t rings,
                    int slice, int member)
      : p_(params),
        cursor_(start),
        tiles_left_(static_cast<int>(tiles)),
        policy_(ptx::evictFirstPolicy()),
        slice_(slice),
        lane_(threadIdx.x % 32),
        whole_pages_(params.page_tokens % C::kTokens == 0 && params.mask == nullptr),
        pages_per_tile_(static_cast<int>((1u << params.tile_shift) /
                                         static_cast<unsigned>(params.page_tokens))),
        tokens_over_((1 << params.tile_shift) - pages_per_tile_ * params.page_tokens) {
    const int head_shift = C::headShift(params);
    const int chunks = kChunks << head_shift;  // of a token, a power of two
    head_ = (lane_ & (chunks - 1)) / kChunks;
    constexpr int kTokensPerCopy = 32 / kChunks;
    first_ = (member * kTokensPerCopy >> head_shift) + (lane_ / kChunks >> head_shift);
    ring_ = rings + head_ * C::kSlots * C::kSlotBytes;
    if (tiles_left_ > 0) beginItem();
  }

  // Issues the copies of the next tile's K or V into a slot and closes a copy group, an empty one
  // past the end. The caller alternates between K and V.
  template <bool kIsV>
  __device__ __forceinline__ void issue(int slot) {
    if (tiles_left_ > 0) {
      if constexpr (!kIsV) {
        copyTile(static_cast<const unsigned char*>(p_.k_cache), p_.k_strides, slot);
        // Ahead of its use by a tile's math, which is about what a lookup takes.
        if (cursor_.tile + 1 < cursor_.request.tiles)
          next_page_ = pageOf(nextPlace().index, firstToken() + (1 << p_.tile_shift));
      } else {
        copyTile(static_cast<const unsigned char*>(p_.v_cache), p_.v_strides, slot);
        if (--tiles_left_ > 0) advance();
      }
    }
    ptx::copyAsyncCommit();
  }

 private:
  static constexpr int kChunks = C::kRowBytes / 16;  // 16-byte chunks of a token
  // Tokens that one round of copies takes: members grow with the heads that share a copy.
  static constexpr int kTokensPerStep = 32 / kChunks * C::kTeamWarps;
  static constexpr int kElementBytes = C::kE4m3 ? 1 : 2;

  // Of the tile's first token, for all lanes, where whole pages hold whole tiles; else of the
  // lane's own token.
  struct Place {
    int index;    // into the request's row of page_table
    int in_page;  // token's index in its page
    int page;     // page id; -1: no row sees the token
  };

  __device__ __forceinline__ int firstToken() const {
    return ((cursor_.request.first_tile + cursor_.tile) << p_.tile_shift) + slice_ * C::kTokens;
  }

  // A draft token hidden by the mask from every row is as good as absent.
  __device__ bool seenByDraft(int token) const {
    const int prefix = cursor_.request.len - cursor_.request.tokens;
    const int draft = token - prefix;
    if (p_.mask == nullptr || draft < 0) return true;
    for (int i = max(0, -prefix); i < cursor_.request.tokens; ++i) {
      const int64_t row = cursor_.request.row0 + i;
      if (p_.mask[row * p_.mask_words + draft / 32] >> (draft % 32) & 1) return true;
    }
    return false;
  }

  // The page at an index of page_table, for the tile that begins at first_token.
  __device__ __forceinline__ int pageOf(int index, int first_token) const {
    const Request& r = cursor_.request;
    bool visible;
    if (whole_pages_) {
      visible = first_token < r.len && first_token + C::kTokens > r.first;
    } else {
      const int token = first_token + lane_;
      visible = lane_ < C::kTokens && token >= r.first && token < r.len && seenByDraft(token);
    }
    if (!visible) return -1;
    if (p_.page_table == nullptr) return cursor_.request_index;
    return p_.page_table[cursor_.request_index * p_.page_table_stride + index];
  }

  __device__ __forceinline__ void beginItem() {
    const unsigned token = firstToken() + (whole_pages_ ? 0 : lane_);
    place_.index = static_cast<int>(token / static_cast<unsigned>(p_.page_tokens));
    place_.in_page = static_cast<int>(token) - place_.index * p_.page_tokens;
    place_.page = pageOf(place_.index, firstToken());
  }

  __device__ __forceinline__ Place nextPlace() const {
    Place next = {place_.index + pages_per_tile_, place_.in_page + tokens_over_, -1};
    if (next.in_page >= p_.page_tokens) {
      next.in_page -= p_.page_tokens;
      ++next.index;
    }
    return next;
  }

  __device__ __forceinline__ void advance() {
    if (++cursor_.tile == cursor_.request.tiles) {
      cursor_.nextItem(p_);
      beginItem();
    } else {
      place_ = nextPlace();
      place_.page = next_page_;
    }
  }

  __device__ __forceinline__ void copyTile(const unsigned char* cache,
                                           const xqaCacheStrides_t& strides, int slot) {
    const int chunk = lane_ % kChunks;
    const int first = first_;
    const uint32_t to = ring_ + slot * C::kSlotBytes;
    const int64_t kv_head = (cursor_.head_group << C::headShift(p_)) + head_;
    cache += kv_head * strides.head * kElementBytes + chunk * 16;
    // Tokens that any row may see, relative to the tile's first.
    const int first_visible = cursor_.request.first - firstToken();
    const int end_visible = cursor_.request.len - firstToken();
    if (whole_pages_) {
      const int64_t step = strides.token * (kTokensPerStep * kElementBytes);
      const unsigned char* from =
          cache +
          (place_.page * strides.page + (place_.in_page + first) * strides.token) * kElementBytes;
      if (first_visible <= 0 && end_visible >= C::kTokens) {
#pragma unroll
        for (int token = 0; token < C::kTokens; token += kTokensPerStep) {
          ptx::copyAsync16(to + swizzled<C::kRowBytes>(token + first, chunk), from, 16, policy_);
          from += step;
        }
      } else {
#pragma unroll 1
        for (int t = first; t < C::kTokens; t += kTokensPerStep) {
          const bool valid = place_.page >= 0 && t >= first_visible && t < end_visible;
          ptx::copyAsync16(to + swizzled<C::kRowBytes>(t, chunk), valid ? from : cache,
                           valid ? 16 : 0, policy_);
          from += step;
        }
      }
    } else {
      const int64_t offset =
          place_.page < 0
              ? -1
              : (place_.page * strides.page + place_.in_page * strides.token) * kElementBytes;
#pragma unroll 2
      for (int token = 0; token < C::kTokens; token += kTokensPerStep) {
        const int t = token + first;
        const bool valid = __shfl_sync(~0u, place_.page, t) >= 0;
        const int64_t from = __shfl_sync(~0u, offset, t);
        ptx::copyAsync16(to + swizzled<C::kRowBytes>(t, chunk), valid ? cache + from : cache,
                         valid ? 16 : 0, policy_);
      }
    }
  }

  const DecodeParams& p_;
  Cursor cursor_;
  int tiles_left_;
  uint64_t policy_;
  uint32_t ring_;  // shared address of the ring that this lane writes to
  int slice_, lane_;
  int head_;          // KV head in the group that this lane copies
  int first_;         // token of the lane's first copy in the slice
  bool whole_pages_;  // pages hold whole tiles and every token of [first, len) is seen by some row
  int pages_per_tile_, tokens_over_;  // from a tile's place to the next one's
  Place place_ = {};
  int next_page_ = -1;  // of the next tile in the item
};

}  // namespace xqa::mma_sync
