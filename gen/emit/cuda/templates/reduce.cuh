// reduce.cuh: sums over the threads of a block.
#pragma once
#include "minfer.cuh"

// A number that a predecessor may have written while this kernel was already there.
MINFER_DEVICE float fresh(const float* p) { return bits_f32(fresh4(p)); }

// The sum of v over a block of 32*WARPS threads, in thread 0: a shuffle tree in each warp, then one partial sum for each
// warp, added in ascending order by the same tree. Slots of absent warps add +0, so the order of the sums depends on
// WARPS alone and not on how many threads had work.
template <int WARPS> MINFER_DEVICE float block_sum(float v) {
  static_assert(WARPS >= 1 && WARPS <= 32, "a block has 1 to 32 warps");
  MINFER_SHARED(float, warp_sums, [WARPS]);
  v = warp_sum(v);
  if (WARPS == 1) return v;
  if (lane_index() == 0) warp_sums[warp_index()] = v;
  block_barrier();
  if (warp_index() == 0) v = warp_sum(lane_index() < WARPS ? warp_sums[lane_index()] : 0.0f);
  return v;
}
