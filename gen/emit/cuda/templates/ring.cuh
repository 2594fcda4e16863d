// ring.cuh: what kernels are written with that stream rows through a ring of stages in shared memory.
#pragma once
#include "decode.cuh"

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
  static_assert(N == 1 || N == 2 || N == 4, "one, two or four sums at a time");
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
