// keys.cuh: numbers of a row as keys, so that the greatest key is the largest number, and of equal ones the one with the lowest index.
#pragma once
#include "minfer.cuh"

// The key that no number has: the least.
MINFER_DEVICE long long no_key() { return (long long)(1ull << 63); }

// The order of a number in the upper half: its bits, those of negative ones turned over; the bits of NaN stand for all that is not finite.
// Its index, negated, in the lower half. What a predecessor has written is read by loads that stay behind the wait for it: a plain one, of what
// is const, the compiler moves before it.
MINFER_DEVICE long long key_of(const float* row, int i) {
  const float v = bits_f32(fresh4(row + i));
  int order = v == 0.0f ? 0 : (int)f32_bits(v);
  order ^= (order >> 31) & 0x7fffffff;
  if (!(fabsf(v) < INFINITY)) order = 0x7fffffff;
  return (long long)(((uint64_t)(uint32_t)order << 32) | (uint32_t)~i);
}
// A key's is itself.
MINFER_DEVICE long long key_of(const long long* row, int i) {
  const uint2 key = fresh8(row + i);
  return (long long)((uint64_t)key.y << 32 | key.x);
}
