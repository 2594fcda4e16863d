// Warp collectives. One warp, unless said otherwise; lane i works on element i.
#include "minfer.cuh"

// out[lane][0..]: shuffle_xor by 1, 2, 4, 8, 16, 31; shuffle_down by 1, 5, 31; shuffle from 0, lane * 7 % 32, 40 (that is 8).
MINFER_KERNEL(shuffles, 32, (const int* in, int* out)) {
  const int lane = lane_index(), v = in[lane];
  int* o = out + 12 * lane;
  o[0] = shuffle_xor(v, 1), o[1] = shuffle_xor(v, 2), o[2] = shuffle_xor(v, 4), o[3] = shuffle_xor(v, 8), o[4] = shuffle_xor(v, 16), o[5] = shuffle_xor(v, 31);
  o[6] = shuffle_down(v, 1), o[7] = shuffle_down(v, 5), o[8] = shuffle_down(v, 31);
  o[9] = shuffle(v, 0), o[10] = shuffle(v, lane * 7 % 32), o[11] = shuffle(v, 40);
}

MINFER_KERNEL(shuffle_types, 32, (const float* f, const unsigned long long* l, float* fo, unsigned long long* lo)) {
  const int lane = lane_index();
  fo[lane] = shuffle_xor(f[lane], 3);
  lo[lane] = shuffle_down(l[lane], 4);
}

// Sums over octets, each octet at its own pace: octet o adds o + 1 times.
MINFER_KERNEL(octets, 32, (const float* in, float* out)) {
  const int lane = lane_index(), octet = lane >> 3;
  const unsigned members = 0xffu << (8 * octet);
  float v = in[lane];
  for (int round = 0; round <= octet; round++) {
    v += shuffle_xor(v, 1, members);
    v += shuffle_xor(v, 2, members);
    v += shuffle_xor(v, 4, members);
    warp_barrier(members);
  }
  out[lane] = v;
}

// 8 warps. out[thread]: sum, maximum.
MINFER_KERNEL(warp_reductions, 256, (const float* in, float* out)) {
  const float v = in[threadIdx.x];
  out[2 * threadIdx.x] = warp_sum(v);
  out[2 * threadIdx.x + 1] = warp_max(v);
}

// The same sum, written out.
MINFER_KERNEL(butterfly_sum, 256, (const float* in, float* out)) {
  float v = in[threadIdx.x];
  for (int x = 16; x > 0; x >>= 1) v += shuffle_xor(v, x);
  out[threadIdx.x] = v;
}

MINFER_KERNEL(votes, 32, (const int* in, unsigned* out)) {
  const bool p = in[threadIdx.x] > 0;
  out[3 * threadIdx.x] = warp_ballot(p);
  out[3 * threadIdx.x + 1] = warp_any(p);
  out[3 * threadIdx.x + 2] = warp_all(p);
}

// Lanes 8 and up leave; the others go on among themselves, though the mask names all. Lane 1 reads lane 9, which is gone.
MINFER_KERNEL(early_exit, 32, (float* out)) {
  const int lane = lane_index();
  if (lane >= 8) return;
  float v = (float)lane;
  v += shuffle_xor(v, 1);
  out[lane] = v + shuffle_xor(v, 4);
  const float gone = shuffle(v, lane == 1 ? 9 : lane);
  out[8 + lane] = gone;
}

// a[16][32], b[32][8], c[16][8] of signed bytes and ints, row by row; d = a * b + c. Fragments are filled as the PTX manual says.
MINFER_KERNEL(mma_bytes, 32, (const int8_t* a, const int8_t* b, const int* c, int* d)) {
  const int lane = lane_index(), group = lane >> 2, index = lane & 3;
  unsigned fa[4], fb[2];
  int fc[4];
  for (int r = 0; r < 4; r++) fa[r] = load4(a + (group + 8 * (r % 2)) * 32 + 4 * index + 16 * (r / 2));
  for (int r = 0; r < 2; r++) {
    fb[r] = 0;
    for (int i = 0; i < 4; i++) fb[r] |= (unsigned)(uint8_t)b[(4 * index + 16 * r + i) * 8 + group] << (8 * i);
  }
  for (int i = 0; i < 4; i++) fc[i] = c[(group + 8 * (i / 2)) * 8 + 2 * index + i % 2];
  mma_s8(fc, fa, fb);
  for (int i = 0; i < 4; i++) d[(group + 8 * (i / 2)) * 8 + 2 * index + i % 2] = fc[i];
}

// a[16][16], b[16][8] of 16 bits, c and d[16][8] of f32. kind 0: f16, 1: bf16.
MINFER_KERNEL(mma_halves, 32, (const uint16_t* a, const uint16_t* b, const float* c, float* d, int kind)) {
  const int lane = lane_index(), group = lane >> 2, index = lane & 3;
  unsigned fa[4], fb[2];
  float fc[4];
  for (int r = 0; r < 4; r++) fa[r] = load4(a + (group + 8 * (r % 2)) * 16 + 2 * index + 8 * (r / 2));
  for (int r = 0; r < 2; r++) fb[r] = (unsigned)b[(2 * index + 8 * r) * 8 + group] | (unsigned)b[(2 * index + 8 * r + 1) * 8 + group] << 16;
  for (int i = 0; i < 4; i++) fc[i] = c[(group + 8 * (i / 2)) * 8 + 2 * index + i % 2];
  if (kind == 0) mma_f16(fc, fa, fb);
  else mma_bf16(fc, fa, fb);
  for (int i = 0; i < 4; i++) d[(group + 8 * (i / 2)) * 8 + 2 * index + i % 2] = fc[i];
}

// The same product with fragments from ldmatrix: a as four tiles, b, which lies row by row, as two transposed ones.
MINFER_KERNEL(mma_ldmatrix, 32, (const uint16_t* a, const uint16_t* b, float* d)) {
  MINFER_SHARED(uint16_t, sa, [16][16]);
  MINFER_SHARED(uint16_t, sb, [16][8]);
  const int lane = lane_index(), group = lane >> 2, index = lane & 3;
  for (int i = lane; i < 256; i += 32) sa[i / 16][i % 16] = a[i];
  for (int i = lane; i < 128; i += 32) sb[i / 8][i % 8] = b[i];
  block_barrier();
  unsigned fa[4], fb[2];
  float fc[4] = {0, 0, 0, 0};
  ldmatrix4(fa, &sa[lane % 16][lane / 16 * 8]);
  ldmatrix2_trans(fb, &sb[lane % 16][0]);
  mma_f16(fc, fa, fb);
  for (int i = 0; i < 4; i++) d[(group + 8 * (i / 2)) * 8 + 2 * index + i % 2] = fc[i];
}

// Four tiles of 8 x 8, tile by tile; out[kind][lane][4]: ldmatrix4, its transposed form, ldmatrix2 and its transposed form.
MINFER_KERNEL(tiles, 32, (const uint16_t* in, unsigned* out)) {
  MINFER_SHARED(uint16_t, s, [4][8][8]);
  const int lane = lane_index();
  for (int i = lane; i < 256; i += 32) s[i / 64][i / 8 % 8][i % 8] = in[i];
  block_barrier();
  const uint16_t* row = s[lane / 8][lane % 8];
  unsigned r[4];
  ldmatrix4(r, row);
  for (int i = 0; i < 4; i++) out[4 * lane + i] = r[i];
  ldmatrix4_trans(r, row);
  for (int i = 0; i < 4; i++) out[128 + 4 * lane + i] = r[i];
  ldmatrix2(r, row);
  for (int i = 0; i < 2; i++) out[256 + 4 * lane + i] = r[i];
  ldmatrix2_trans(r, row);
  for (int i = 0; i < 2; i++) out[384 + 4 * lane + i] = r[i];
}
