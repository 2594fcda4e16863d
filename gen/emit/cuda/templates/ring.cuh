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

// The sums of v[0..N-1] over the eight lanes of an octet, for the four octets of a warp at a time; lane l gets that of v[l % N].
template <int N> MINFER_DEVICE float octet_sums(const float (&v)[N]) {
  static_assert(N == 1 || N == 2 || N == 4 || N == 8, "one, two, four or eight sums at a time");
  const int l = lane_index() & 7;
  float w[N];
  MINFER_UNROLL
  for (int i = 0; i < N; i++) w[i] = v[i];
  // Each step halves the sums that a lane keeps: it gives the neighbour the half that the neighbour keeps.
  MINFER_UNROLL
  for (int n = N, step = 1; n > 1; n /= 2, step *= 2) {
    const bool odd = l & step;
    MINFER_UNROLL
    for (int i = 0; i < n / 2; i++) {
      const float keep = odd ? w[2 * i + 1] : w[2 * i], give = odd ? w[2 * i] : w[2 * i + 1];
      w[i] = keep + shuffle_xor(give, step);
    }
  }
  MINFER_UNROLL
  for (int step = N; step < 8; step *= 2) w[0] += shuffle_xor(w[0], step);
  return w[0];
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
  const int mine = 256 * warp_index() + 4 * lane_index();
  uint32_t bits[ROUNDS][8], gamma[early ? ROUNDS : 1][8];
  const auto element = [&](int round, int half) { return mine + 256 * WARPS * round + 128 * half; };
  if (early && norm) {
    MINFER_UNROLL
    for (int i = 0; i < 2 * ROUNDS; i++) {
      const int e = element(i / 2, i % 2);
      if (e < cols) put16(gamma[i / 2 % (early ? ROUNDS : 1)] + 4 * (i % 2), load16(norm + e));
    }
  }
  dependency_wait();
  MINFER_UNROLL
  for (int i = 0; i < 2 * ROUNDS; i++) {
    const int e = element(i / 2, i % 2);
    put16(bits[i / 2] + 4 * (i % 2), e < cols ? fresh16(x + e) : make_uint4(0, 0, 0, 0));
  }
  float square = 0.0f;
  MINFER_UNROLL
  for (int round = 0; round < ROUNDS; round++) {
    if (256 * (warp_index() + WARPS * round) >= cols) break;  // a whole warp
    MINFER_UNROLL
    for (int half = 0; half < 2; half++) {
      const int e = element(round, half);
      const bool there = e < cols;
      uint32_t* g = gamma[round % (early ? ROUNDS : 1)] + 4 * half;
      if (norm && there && !early) put16(g, load16(norm + e));
      float v[4];
      // The greatest magnitude of 32 elements as bits, so that NaN and infinity win.
      unsigned top = 0;
      MINFER_UNROLL
      for (int i = 0; i < 4; i++) {
        v[i] = bits_f32(bits[round][4 * half + i]);
        square = fmaf(v[i], v[i], square);
        if (norm && there) v[i] *= bits_f32(g[i]);
        top = max(top, f32_bits(v[i]) & 0x7fffffffu);
      }
      MINFER_UNROLL
      for (int step = 1; step < 8; step *= 2) top = max(top, shuffle_xor(top, step));
      // Below 2^-90 everything counts as zero, so that the inverse is finite.
      const float d = bits_f32(top) < 0x1p-90f ? 0.0f : bits_f32(top) / 127.0f, inverse = d == 0.0f ? 0.0f : 1.0f / d;
      uint32_t packed = 0;
      MINFER_UNROLL
      for (int i = 0; i < 4; i++) packed |= (uint32_t)(max(-127, min(127, round_even_int(v[i] * inverse))) & 0xff) << (8 * i);
      if (there) {
        *reinterpret_cast<uint32_t*>(codes + e) = packed;
        if ((lane_index() & 7) == 0) scales[e / 32] = d;
      }
    }
  }
  return warp_sum(square);
}
