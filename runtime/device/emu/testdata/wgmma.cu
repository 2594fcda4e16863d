// Products of warpgroups.
#include "minfer.cuh"

#if MINFER_HAS_WGMMA
// y[m][n] = sum over k of a[m][k] * b[n][k], of 64 numbers k and of 64 rows m for each of two warpgroups: two groups of two products. What the
// first group reads is overwritten when that has been waited for.
//
// wrong 0: nothing; 1: the sums are read before the second wait; 2: all that is read is overwritten before it; 3: the second group is not
// committed; 4: the tile is not where one may be; 5: a warp leaves; 6: 65 products; 7: no fence after stores; 8: no fence after copies;
// 9: no wgmma_begin; 10: a lane multiplies something else; 11: operands from the second of eight rows on; 12: from within 16 numbers on;
// 13: operands past the end; 14: no wgmma_begin after waiting.
template <int N> MINFER_DEVICE void multiply(const uint16_t* a, const uint16_t* b, float* y, int wrong) {
  uint8_t* tile = dynamic_shared_at<uint8_t>(1024);
  const auto at = [&](int row, int chunk) { return tile + row * 128 + ((chunk ^ (row & 7)) << 4); };
  for (int i = (int)threadIdx.x; i < 8 * (128 + N); i += 256) {
    const uint16_t* from = i < 8 * 128 ? a + 8 * i : b + 8 * (i - 8 * 128);
    if (wrong == 7 || wrong != 8 && i / 8 % 2) store16(at(i / 8, i % 8), load16(from));
    else async_copy16(at(i / 8, i % 8), from);
  }
  async_commit();
  async_wait<0>();
  if (wrong != 7 && wrong != 8) fence_async();
  block_barrier();
  if (wrong == 5 && warp_index() == 2) return;

  WgmmaSums<N> sums = {};
  const int more = wrong == 10 && threadIdx.x == 37 ? -1024 : wrong == 11 ? 128 : wrong == 12 ? 16 : wrong == 13 ? 2048 : 0;
  const uint64_t ta = wgmma_further(wgmma_tile(tile + (wrong == 4 ? 512 : 0)), 64 * 128 * (warp_index() / 4)), tb = wgmma_further(wgmma_tile(tile), 128 * 128 + more);
  if (wrong != 9) wgmma_begin(sums);
  for (int k = 0; k < 4; k++) {
    wgmma_bf16(sums, wgmma_further(ta, 32 * k), wgmma_further(tb, 32 * k));
    if (k == 1) wgmma_commit(sums);
  }
  for (int i = 0; wrong == 6 && i < 61; i++) wgmma_bf16(sums, ta, tb);
  if (wrong != 3) wgmma_commit(sums);
  wgmma_wait<1>(sums);
  if (wrong == 14) wgmma_bf16(sums, ta, tb);
  block_barrier();
  for (int i = (int)threadIdx.x; i < 8 * (128 + N); i += 256) {
    if (i % 8 < 4 || wrong == 2) store16(at(i / 8, i % 8), make_uint4(0, 0, 0, 0));
  }
  block_barrier();
  const WgmmaSums<N> early = sums;
  wgmma_wait<0>(sums);
  const float* v = wrong == 1 ? early.v : sums.v;
  for (int i = 0; i < N / 2; i++) {
    const int row = 16 * warp_index() + lane_index() / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane_index() % 4 * 2 + i % 2;
    y[row * N + column] = v[i];
  }
}
MINFER_KERNEL(wgmma_64, 256, (const uint16_t* a, const uint16_t* b, float* y, int wrong)) { multiply<64>(a, b, y, wrong); }
MINFER_KERNEL(wgmma_128, 256, (const uint16_t* a, const uint16_t* b, float* y, int wrong)) { multiply<128>(a, b, y, wrong); }
MINFER_KERNEL(wgmma_160, 256, (const uint16_t* a, const uint16_t* b, float* y, int wrong)) { multiply<160>(a, b, y, wrong); }
#endif
