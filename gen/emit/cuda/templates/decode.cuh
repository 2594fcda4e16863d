// decode.cuh: what decoders of weight formats are written with, beyond the vocabulary.
#pragma once
#include "minfer.cuh"

// Where a decoder loads from: memory that nobody writes during the launch, memory that a predecessor may have written while this
// kernel was already there, shared memory.
struct FromGlobal {
  MINFER_DEVICE uint8_t load1(const void* p) { return ::load1(p); }
  MINFER_DEVICE uint16_t load2(const void* p) { return ::load2(p); }
  MINFER_DEVICE uint32_t load4(const void* p) { return ::load4(p); }
  MINFER_DEVICE uint2 load8(const void* p) { return ::load8(p); }
  MINFER_DEVICE uint4 load16(const void* p) { return ::load16(p); }
  MINFER_DEVICE uint32_t load4_by2(const void* p) { return ::load4_by2(p); }
  MINFER_DEVICE uint32_t load4_by1(const void* p) { return ::load4_by1(p); }
};
struct FromFresh {
  MINFER_DEVICE uint16_t load2(const uint8_t* p) {
    const unsigned odd = (unsigned)(reinterpret_cast<uintptr_t>(p) & 2u);
    return (uint16_t)(::fresh4(p - odd) >> (8 * odd));
  }
  MINFER_DEVICE uint32_t load4(const void* p) { return ::fresh4(p); }
  MINFER_DEVICE uint2 load8(const void* p) { return ::fresh8(p); }
  MINFER_DEVICE uint4 load16(const void* p) { return ::fresh16(p); }
};
struct FromShared {
  MINFER_DEVICE uint8_t load1(const void* p) { return ::shared1(p); }
  MINFER_DEVICE uint16_t load2(const void* p) { return ::shared2(p); }
  MINFER_DEVICE uint32_t load4(const void* p) { return ::shared4(p); }
  MINFER_DEVICE uint2 load8(const void* p) { return ::shared8(p); }
  MINFER_DEVICE uint4 load16(const void* p) { return ::shared16(p); }
  MINFER_DEVICE uint32_t load4_by2(const uint8_t* p) { return (uint32_t)::shared2(p) | (uint32_t)::shared2(p + 2) << 16; }
  MINFER_DEVICE uint32_t load4_by1(const uint8_t* p) {
    return (uint32_t)::shared1(p) | (uint32_t)::shared1(p + 1) << 8 | (uint32_t)::shared1(p + 2) << 16 | (uint32_t)::shared1(p + 3) << 24;
  }
};

MINFER_DEVICE void put16(uint32_t* w, uint4 v) { w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w; }
MINFER_DEVICE void put8(uint32_t* w, uint2 v) { w[0] = v.x, w[1] = v.y; }

// Four adjacent codes of 1, 2, 3 or 4 bits in the low bits of w, spread to the low bits of four bytes.
MINFER_DEVICE uint32_t spread1(uint32_t w) { return (w & 0xfu) * 0x00204081u & 0x01010101u; }
MINFER_DEVICE uint32_t spread2(uint32_t w) {
  w = (w & 0xffu) | (w & 0xffu) << 12;
  w &= 0x000f000fu;
  return (w | w << 6) & 0x03030303u;
}
MINFER_DEVICE uint32_t spread3(uint32_t w) {
  w = ((w & 0xfffu) | (w & 0xfffu) << 10) & 0x003f003fu;
  return (w | w << 5) & 0x07070707u;
}
MINFER_DEVICE uint32_t spread4(uint32_t w) {
  w = ((w & 0xffffu) | (w & 0xffffu) << 8) & 0x00ff00ffu;
  return (w | w << 4) & 0x0f0f0f0fu;
}

// Four codes below 8 (16), one to a byte, replaced by their 8-bit levels; level i is byte i of the words in order.
MINFER_DEVICE uint32_t levels8(uint32_t codes, uint32_t l0, uint32_t l1) {
  const uint32_t t = codes | codes >> 4;
  return byte_perm(l0, l1, (t & 0xffu) | (t >> 8 & 0xff00u));
}
MINFER_DEVICE uint32_t levels16(uint32_t codes, uint32_t l0, uint32_t l1, uint32_t l2, uint32_t l3) {
  const uint32_t c = codes & 0x07070707u, t = c | c >> 4, selector = (t & 0xffu) | (t >> 8 & 0xff00u);
  const uint32_t high = (codes >> 3 & 0x01010101u) * 0xffu;
  return (byte_perm(l0, l1, selector) & ~high) | (byte_perm(l2, l3, selector) & high);
}

// Each of four positive bytes negated where its byte of negative is 1.
MINFER_DEVICE uint32_t negate4(uint32_t w, uint32_t negative) { return (w ^ negative * 0xffu) + negative; }

// A word of n bits with one more on top that makes the number of ones even.
MINFER_DEVICE uint32_t with_parity(uint32_t w, int n) {
  uint32_t x = w ^ w >> 16;
  x ^= x >> 8, x ^= x >> 4, x ^= x >> 2, x ^= x >> 1;
  return w | (x & 1u) << n;
}

// A word of n bits read as a fraction in base r: digit i, least first, in the bits that r - 1 takes.
MINFER_DEVICE uint64_t radix_digits(uint32_t w, int n, int r, int digits) {
  uint64_t out = 0;
  uint32_t power = 1, mask = (1u << n) - 1u;
  int width = 0;
  while ((r - 1) >> width) width++;
  for (int i = 0; i < digits; i++, power *= (uint32_t)r) out |= (uint64_t)(((w * power & mask) * (uint32_t)r) >> n) << (width * i);
  return out;
}

template <int N> struct Levels { float v[N]; };
template <int N> MINFER_DEVICE float level_of(Levels<N> l, uint32_t i) { return l.v[i]; }

// n bits at bit address a, least significant first.
MINFER_DEVICE uint32_t bits_at(const uint8_t* p, int a, int n) {
  uint64_t w = 0;
  for (int k = 0; 8 * k < (a & 7) + n; k++) w |= (uint64_t)load1(p + (a >> 3) + k) << (8 * k);
  return (uint32_t)(w >> (a & 7)) & (n < 32 ? (1u << n) - 1u : 0xffffffffu);
}
