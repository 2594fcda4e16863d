// Says every word of the vocabulary once, so that a compiler can be asked what it makes of each.
#include "minfer.cuh"

MINFER_BOUNDS(words, {512, 16384});
MINFER_TABLE unsigned char table[4] = {1, 2, 3, 4};
MINFER_DEVICE int twice(int x) { return 2 * x; }

MINFER_KERNEL(words, 256, (const uint8_t* w, float* y, int n, unsigned* counter, unsigned long long* key, long long stride, unsigned* used)) {
  MINFER_SHARED(float, part, [8]);
  MINFER_SHARED(uint64_t, bar, [2]);
  uint8_t* d = dynamic_shared<uint8_t>();

  const uint4 q = load16(w + 16 * threadIdx.x), r = stream16(w + stride);
  int sum = dp4a((int)q.x, (int)r.x, dp4a_u(q.y, (int)r.y, 0)) + table[q.w & 3] + twice((int)(r.z ^ r.w ^ q.z));
  float f = f16_to_f32(load2(w + 2)) + bf16_to_f32(load2(w + 4)) + (float)f32_to_f16((float)sum) + (float)f32_to_bf16((float)sum + 1) + (float)(bf16_pair((float)sum, 2.0f) ^ f16_pair((float)sum, 3.0f));
  f += e8m0_to_f32(load1(w)) + e8m0_half_to_f32(load1(w + 1)) + (float)load4_by1(w + 1) + (float)load4_by2(w + 2) + (float)load8(w).x + (float)load4(w);
  f += (float)fresh4(w) + (float)fresh8(w).y + (float)fresh16(w).y;

  f = warp_sum(f) + warp_max(f) + shuffle_xor(f, 1, 0xffu << (lane_index() & 24)) + (float)shuffle_down(sum, 3) + (float)shuffle(sum, 0);
  if (warp_any(f > 1)) f += (float)warp_ballot(f > 0) + (float)warp_all(f < 3);
  warp_barrier();
  if (lane_index() == 0) part[warp_index()] = f;
  block_barrier();
  named_barrier(1, 128);

  async_copy16(d + 16 * threadIdx.x, w);
  async_copy16_or_zero(d + 16 * threadIdx.x, w, n > 3);
  async_commit();
  async_wait<1>();
  if (threadIdx.x == 0) {
    mbar_init(bar, 1);
    mbar_init_warps(bar + 1, 8);
    fence_async();
  }
  block_barrier();
#if MINFER_HAS_BULK
  if (threadIdx.x == 0) {
    mbar_expect(bar, 1024);
    bulk_copy(d, w, 1024, bar);
  }
#else
  if (threadIdx.x == 0) mbar_arrive(bar);
#endif
  prefetch_l2(w, 1024);
  mbar_wait(bar, 0);
  if (warp_index() > 0) mbar_arrive_warp(bar + 1);
  if (threadIdx.x == 0) mbar_arrive(bar + 1);
  if (warp_index() == 0) mbar_follow(bar + 1, lane_index() == 0);
  mbar_wait(bar + 1, 0);
  dependency_wait();
  dependency_launch();

  int c[4] = {0, 0, 0, 0};
  float cf[4] = {0, 0, 0, 0};
  unsigned a[4], b[2];
  ldmatrix4(a, d + 16 * lane_index());
  ldmatrix2_trans(b, d + 16 * lane_index());
  mma_s8(c, a, b);
  ldmatrix4_trans(a, d);
  ldmatrix2(b, d);
  mma_f16(cf, a, b);
  mma_bf16(cf, a, b);

#if MINFER_HAS_WGMMA
  const uint64_t tile = wgmma_tile(dynamic_shared_at<uint8_t>(1024));
  const auto multiply = [&](auto& sums) {
    wgmma_begin(sums);
    wgmma_bf16(sums, tile, wgmma_further(tile, 64 * 128));
    wgmma_commit(sums);
    wgmma_wait<1>(sums);
    wgmma_wait<0>(sums);
    f += sums.v[0];
  };
  WgmmaSums<64> sums64 = {};
  WgmmaSums<128> sums128 = {};
  WgmmaSums<160> sums160 = {};
  multiply(sums64);
  multiply(sums128);
  multiply(sums160);
#endif

  store16(y + 8, shared16(d + 16));
  store8(y + 4, shared8(d + 8));
  f += (float)shared4(d);
  f += (float)shared1(d) + (float)shared2(d);
  f += atomic_add(y, f) + (float)atomic_add((int*)used, -1) + (float)atomic_add(used, 2u) + (float)atomic_max(counter, 3u) + (float)atomic_max(key, 7ull);
  const unsigned old = atomic_inc(counter, gridDim.x - 1) + arrive_gpu(counter, gridDim.x - 1);
  fence_gpu();
  MINFER_UNROLL
  for (int i = 0; i < 4; i++) f += (float)c[i] + cf[i];
  y[threadIdx.x] = f + part[0] + exp_approx(f) + rsqrtf(f) + (float)round_even_int(f) + bits_f32(byte_perm(f32_bits(f), old, 0x1234)) + (float)funnel_r(old, old, 3) +
                   (float)min(sum, 3) + (float)max(old, 5u);
  MINFER_COVER(1, 2);
  MINFER_MARK(7);
  MINFER_COVER(blockIdx.x, threadIdx.x, 3);
}

MINFER_KERNEL_RESIDENT(resident, 128, 8, (float* y)) { y[threadIdx.x] = fmaf(y[threadIdx.x], 2.0f, 1.0f); }
