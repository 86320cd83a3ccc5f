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
  __device__ Loader(const DecodeParams& params, const Cursor& start, int64_t tiles,
                    uint32_t ring_address, int team_index, int warp_in_team)
      : p_(params),
        cursor_(start),
        tiles_left_(tiles),
        policy_(ptx::evictFirstPolicy()),
        ring_(ring_address),
        team_(team_index),
        warp_(warp_in_team),
        lane_(threadIdx.x % 32),
        whole_pages_(params.page_tokens % C::kTokens == 0 && params.mask == nullptr),
        pages_per_tile_(C::kTileTokens / params.page_tokens),
        tokens_over_(C::kTileTokens % params.page_tokens) {
    if (tiles_left_ > 0) beginItem();
  }

  // Issues the copies of the next slot, which the caller knows to be K's or V's, and closes a copy
  // group, an empty one past the end.
  template <bool kIsV>
  __device__ __forceinline__ void issue() {
    if (tiles_left_ > 0) {
      if constexpr (!kIsV) {
        copyTile(static_cast<const unsigned char*>(p_.k_cache), p_.k_strides);
        // Ahead of its use by a tile's math, which is about what a lookup takes.
        if (cursor_.tile + 1 < cursor_.request.tiles) next_ = nextPlace();
      } else {
        copyTile(static_cast<const unsigned char*>(p_.v_cache), p_.v_strides);
        if (--tiles_left_ > 0) advance();
      }
    }
    slot_ = slot_ + 1 == C::kSlots ? 0 : slot_ + 1;
    ptx::copyAsyncCommit();
  }

 private:
  static constexpr int kChunks = C::kRowBytes / 16;    // 16-byte chunks of a token
  static constexpr int kTokensPerCopy = 32 / kChunks;  // tokens that one warp-wide copy takes
  static constexpr int kTokensPerStep = kTokensPerCopy * C::kTeamWarps;
  static constexpr int kElementBytes = C::kE4m3 ? 1 : 2;

  // Of the tile's first token, for all lanes, where whole pages hold whole tiles; else of the
  // lane's own token.
  struct Place {
    int index;    // into the request's row of page_table
    int in_page;  // token's index in its page
    int page;     // page id; -1: no row sees the token
  };

  __device__ __forceinline__ int firstToken() const {
    return (cursor_.request.first_tile + cursor_.tile) * C::kTileTokens + team_ * C::kTokens;
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

  __device__ __forceinline__ void lookUp(Place& place, int first_token) const {
    const Request& r = cursor_.request;
    bool visible;
    if (whole_pages_) {
      visible = first_token < r.len && first_token + C::kTokens > r.first;
    } else {
      const int token = first_token + lane_;
      visible = lane_ < C::kTokens && token >= r.first && token < r.len && seenByDraft(token);
    }
    place.page = -1;
    if (visible) {
      place.page = p_.page_table != nullptr
                       ? p_.page_table[cursor_.request_index * p_.page_table_stride + place.index]
                       : cursor_.request_index;
    }
  }

  __device__ __forceinline__ void beginItem() {
    const unsigned token = firstToken() + (whole_pages_ ? 0 : lane_);
    place_.index = static_cast<int>(token / static_cast<unsigned>(p_.page_tokens));
    place_.in_page = static_cast<int>(token) - place_.index * p_.page_tokens;
    lookUp(place_, firstToken());
    beginTile();
  }

  __device__ __forceinline__ Place nextPlace() const {
    Place next = {place_.index + pages_per_tile_, place_.in_page + tokens_over_, -1};
    if (next.in_page >= p_.page_tokens) {
      next.in_page -= p_.page_tokens;
      ++next.index;
    }
    lookUp(next, firstToken() + C::kTileTokens);
    return next;
  }

  __device__ __forceinline__ void advance() {
    if (++cursor_.tile == cursor_.request.tiles) {
      cursor_.nextItem(p_, C::kTileTokens);
      beginItem();
    } else {
      place_ = next_;
      beginTile();
    }
  }

  // Tokens of the tile that any row may see, relative to its first: the same for K and V.
  __device__ __forceinline__ void beginTile() {
    first_visible_ = cursor_.request.first - firstToken();
    end_visible_ = cursor_.request.len - firstToken();
  }

  __device__ __forceinline__ void copyTile(const unsigned char* cache,
                                           const xqaCacheStrides_t& strides) {
    const int chunk = lane_ % kChunks;
    const int first = warp_ * kTokensPerCopy + lane_ / kChunks;
    const uint32_t to = ring_ + slot_ * C::kSlotBytes;
    cache += (cursor_.kv_head * strides.head) * kElementBytes + chunk * 16;
    if (whole_pages_) {
      const int64_t step = strides.token * (kTokensPerStep * kElementBytes);
      const unsigned char* from =
          cache +
          (place_.page * strides.page + (place_.in_page + first) * strides.token) * kElementBytes;
      if (first_visible_ <= 0 && end_visible_ >= C::kTokens) {
#pragma unroll
        for (int token = 0; token < C::kTokens; token += kTokensPerStep) {
          ptx::copyAsync16(to + swizzled<C::kRowBytes>(token + first, chunk), from, 16, policy_);
          from += step;
        }
      } else {
#pragma unroll 1
        for (int t = first; t < C::kTokens; t += kTokensPerStep) {
          const bool valid = place_.page >= 0 && t >= first_visible_ && t < end_visible_;
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
#pragma unroll
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
  int64_t tiles_left_;
  uint64_t policy_;
  uint32_t ring_;  // shared address of the team's first slot
  int team_, warp_, lane_;
  bool whole_pages_;  // pages hold whole tiles and every token of [first, len) is seen by some row
  int pages_per_tile_, tokens_over_;  // from a tile's place to the next one's
  Place place_ = {};
  Place next_ = {};
  int first_visible_ = 0;
  int end_visible_ = 0;
  int slot_ = 0;
};

}  // namespace xqa::mma_sync
