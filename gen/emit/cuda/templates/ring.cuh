// ring.cuh: what kernels are written with that stream rows through a ring of stages in shared memory.
#pragma once
#include "decode.cuh"
#include "reduce.cuh"

// A place in a ring: the stage, and the parity of the phase that its barriers are in.
template <int STAGES> struct RingPlace {
  int stage;
  unsigned parity;
};
template <int STAGES> MINFER_DEVICE void advance(RingPlace<STAGES>& p) {
  if (++p.stage == STAGES) p.stage = 0, p.parity ^= 1u;
}

// v[0..N-1] folded by `fold` over the eight lanes of an octet, for the four octets of a warp at a time; lane l gets that of v[l % N].
template <int N, typename T, typename Fold> MINFER_DEVICE T octet_folds(const T (&v)[N], Fold fold) {
  static_assert(N == 1 || N == 2 || N == 4 || N == 8, "one, two, four or eight at a time");
  const int l = lane_index() & 7;
  T w[N];
  MINFER_UNROLL
  for (int i = 0; i < N; i++) w[i] = v[i];
  // Each step halves what a lane keeps: it gives the neighbour the half that the neighbour keeps.
  MINFER_UNROLL
  for (int n = N, step = 1; n > 1; n /= 2, step *= 2) {
    const bool odd = l & step;
    MINFER_UNROLL
    for (int i = 0; i < n / 2; i++) {
      const T keep = odd ? w[2 * i + 1] : w[2 * i], give = odd ? w[2 * i] : w[2 * i + 1];
      w[i] = fold(keep, shuffle_xor(give, step));
    }
  }
  MINFER_UNROLL
  for (int step = N; step < 8; step *= 2) w[0] = fold(w[0], shuffle_xor(w[0], step));
  return w[0];
}
template <int N> MINFER_DEVICE float octet_sums(const float (&v)[N]) {
  return octet_folds(v, [](float a, float b) { return a + b; });
}

#if MINFER_HAS_BULK
// Of rows first .. first+n-1 of matrices that follow each other, those of the one that has `rows` rows from row `from` on, to where they
// belong in a stage.
MINFER_DEVICE void ring_copy(uint8_t* stage, const uint8_t* w, int first, int n, int from, int rows, int row_bytes, uint64_t* full) {
  const int lo = max(first, from), hi = min(first + n, from + rows);
  if (lo < hi) bulk_copy(stage + (lo - first) * row_bytes, w + (size_t)(lo - from) * row_bytes, (unsigned)((hi - lo) * row_bytes), full);
}
#endif

// x[0..cols-1], times norm where there is one, in codes of 8 bits for each 32 elements: d = max|x| / 127, code = x / d to nearest even. The
// first WARPS warps of a block take 256 elements each in turn, a lane 4 neighbours of either half, so that a load of a warp asks for each
// sector once; in at most ROUNDS rounds whose loads all come first: those of the norm before the predecessor has ended, where registers
// allow it. It waits for the predecessor, and returns the sum of x squared that the warp saw.
template <int WARPS, int ROUNDS> MINFER_DEVICE float ring_quantize(uint8_t* codes, float* scales, const float* x, const float* norm, int cols) {
  constexpr bool early = ROUNDS <= 2;
  constexpr int groups = ROUNDS == 1 ? 2 : ROUNDS == 2 ? 4 : 8;  // of 32 elements, which an octet shares out; a power of two
  static_assert(2 * ROUNDS <= groups, "an octet has eight lanes");
  const int mine = 256 * warp_index() + 4 * lane_index();
  float v[2 * ROUNDS][4], gamma[early ? 2 * ROUNDS : 1][4];
  const auto element = [&](int group) { return mine + 256 * WARPS * (group / 2) + 128 * (group % 2); };
  const auto load = [&](float (&to)[4], uint4 bits) { to[0] = bits_f32(bits.x), to[1] = bits_f32(bits.y), to[2] = bits_f32(bits.z), to[3] = bits_f32(bits.w); };
  if (early && norm) {
    MINFER_UNROLL
    for (int i = 0; i < 2 * ROUNDS; i++) {
      if (element(i) < cols) load(gamma[early ? i : 0], load16(norm + element(i)));
    }
  }
  dependency_wait();
  MINFER_UNROLL
  for (int i = 0; i < 2 * ROUNDS; i++) load(v[i], element(i) < cols ? fresh16(x + element(i)) : make_uint4(0, 0, 0, 0));
  float square = 0.0f;
  unsigned tops[groups];  // the greatest magnitudes as bits, so that NaN and infinity win
  MINFER_UNROLL
  for (int i = 0; i < groups; i++) {
    tops[i] = 0;
    if (i >= 2 * ROUNDS) continue;
    const bool there = element(i) < cols;
    if (!early && norm && there) load(gamma[0], load16(norm + element(i)));
    MINFER_UNROLL
    for (int k = 0; k < 4; k++) {
      float& e = v[i < 2 * ROUNDS ? i : 0][k];
      square = fmaf(e, e, square);
      if (norm && there) e *= gamma[early ? i : 0][k];
      tops[i] = max(tops[i], f32_bits(e) & 0x7fffffffu);
    }
  }
  // Lane l of an octet has the scale of its group l, and divides for all of them.
  const float top = bits_f32(octet_folds(tops, [](unsigned a, unsigned b) { return max(a, b); }));
  // Below 2^-90 everything counts as zero, so that the inverse is finite.
  const float d = top < 0x1p-90f ? 0.0f : top / 127.0f, inverse = d == 0.0f ? 0.0f : 1.0f / d;
  const int octet = lane_index() & 24, own = lane_index() & 7;
  if (own < 2 * ROUNDS && element(own) < cols) scales[element(own) / 32] = d;
  MINFER_UNROLL
  for (int i = 0; i < 2 * ROUNDS; i++) {
    const float by = shuffle(inverse, octet + i);
    // Adding 1.5 * 2^23 rounds to the nearest even integer, whose low byte is that of the sum's bits.
    uint32_t c[4];
    MINFER_UNROLL
    for (int k = 0; k < 4; k++) c[k] = f32_bits(v[i][k] * by + 0x1.8p23f);
    if (element(i) < cols) *reinterpret_cast<uint32_t*>(codes + element(i)) = byte_perm(byte_perm(c[0], c[1], 0x0040), byte_perm(c[2], c[3], 0x0040), 0x5410);
  }
  return warp_sum(square);
}
