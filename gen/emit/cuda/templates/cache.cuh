// cache.cuh: how keys and values lie in a cache, by format. A cache is [positions, heads, head_dim]; i is the index of a number from its start.
#pragma once
#include "minfer.cuh"

// at reads a number that nobody writes during the launch, put writes one. A lane that works on 8 numbers together keeps what fetch8 loads
// from L2 in Raw, and number8 makes numbers of it when they are due; pack8 gives Raw of numbers, and them as the cache will hold them. i is
// then a multiple of 8. Blocks take whole warps in put and pack8: their numbers are those of neighbouring lanes.
struct CacheF16 {
  struct Raw { uint32_t w[4]; };
  MINFER_DEVICE float at(const uint8_t* cache, size_t i) { return f16_to_f32(load2(cache + 2 * i)); }
  MINFER_DEVICE void put(uint8_t* cache, size_t i, float x) { reinterpret_cast<uint16_t*>(cache)[i] = f32_to_f16(x); }
  MINFER_DEVICE Raw fetch8(const uint8_t* cache, size_t i) {
    const uint4 v = fresh16(cache + 2 * i);
    return Raw{{v.x, v.y, v.z, v.w}};
  }
  MINFER_DEVICE float number8(const Raw& raw, size_t, int slot) { return f16_to_f32((uint16_t)(raw.w[slot / 2] >> (16 * (slot % 2)))); }
  MINFER_DEVICE Raw pack8(float (&x)[8]) {
    Raw raw = {};
    MINFER_UNROLL
    for (int slot = 0; slot < 8; slot++) {
      const uint16_t h = f32_to_f16(x[slot]);
      raw.w[slot / 2] |= (uint32_t)h << (16 * (slot % 2));
      x[slot] = f16_to_f32(h);
    }
    return raw;
  }
  MINFER_DEVICE void store8(uint8_t* cache, size_t i, const Raw& raw) { store16(cache + 2 * i, make_uint4(raw.w[0], raw.w[1], raw.w[2], raw.w[3])); }
};

struct CacheF32 {
  struct Raw { uint32_t w[8]; };
  MINFER_DEVICE float at(const uint8_t* cache, size_t i) { return bits_f32(load4(cache + 4 * i)); }
  MINFER_DEVICE void put(uint8_t* cache, size_t i, float x) { reinterpret_cast<float*>(cache)[i] = x; }
  MINFER_DEVICE Raw fetch8(const uint8_t* cache, size_t i) {
    const uint4 a = fresh16(cache + 4 * i), b = fresh16(cache + 4 * i + 16);
    return Raw{{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
  MINFER_DEVICE float number8(const Raw& raw, size_t, int slot) { return bits_f32(raw.w[slot]); }
  MINFER_DEVICE Raw pack8(float (&x)[8]) {
    Raw raw;
    MINFER_UNROLL
    for (int slot = 0; slot < 8; slot++) raw.w[slot] = f32_bits(x[slot]);
    return raw;
  }
  MINFER_DEVICE void store8(uint8_t* cache, size_t i, const Raw& raw) {
    store16(cache + 4 * i, make_uint4(raw.w[0], raw.w[1], raw.w[2], raw.w[3]));
    store16(cache + 4 * i + 16, make_uint4(raw.w[4], raw.w[5], raw.w[6], raw.w[7]));
  }
};

// Blocks of 32 codes of 8 bits with a scale in f16, `bytes` long, the scale at byte d and the codes at byte q: x = scale * code. Words are
// loaded whole: a cache takes a multiple of 4 bytes.
template <int bytes, int d, int q> struct CacheBlocks {
  static_assert(bytes % 2 == 0 && d % 2 == 0 && q % 2 == 0, "loads of 2 bytes");
  struct Raw { uint32_t w[4]; };  // the words that hold the codes, which begin in the middle of one or not, and the one that holds the scale
  MINFER_DEVICE size_t block(size_t i) { return i / 32 * bytes; }
  MINFER_DEVICE size_t codes(size_t i) { return block(i) + q + i % 32; }
  MINFER_DEVICE float at(const uint8_t* cache, size_t i) {
    return f16_to_f32(load2(cache + block(i) + d)) * (float)(int8_t)load1(cache + codes(i));
  }
  // The scale of a block of which m is the greatest magnitude, and the code of one of its numbers.
  MINFER_DEVICE float scale(unsigned m) { return bits_f32(m) / 127.0f; }
  MINFER_DEVICE int code(float x, float by) {
    const float scaled = x * (by == 0.0f ? 0.0f : 1.0f / by);
    if (!(scaled > -127.0f)) return -127;
    if (scaled >= 127.0f) return 127;
    const int whole = (int)scaled;
    const float rest = scaled - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);  // to nearest, ties away from zero
  }
  MINFER_DEVICE unsigned magnitude(float x) { return f32_bits(x) & 0x7fffffffu; }  // as bits, so that NaN and infinity are the greatest
  MINFER_DEVICE void put(uint8_t* cache, size_t i, float x) {
    unsigned m = magnitude(x);
    MINFER_UNROLL
    for (int step = 16; step > 0; step >>= 1) m = max(m, shuffle_xor(m, step));
    const float by = scale(m);
    cache[codes(i)] = (uint8_t)code(x, by);
    if (i % 32 == 0) *reinterpret_cast<uint16_t*>(cache + block(i) + d) = f32_to_f16(by);
  }
  MINFER_DEVICE Raw fetch8(const uint8_t* cache, size_t i) {
    const uint8_t *from = cache + codes(i) - (codes(i) & 2), *by = cache + block(i) + d;
    return Raw{{fresh4(from), fresh4(from + 4), codes(i) & 2 ? fresh4(from + 8) : 0u, fresh4(by - ((block(i) + d) & 2))}};
  }
  MINFER_DEVICE float number8(const Raw& raw, size_t i, int slot) {
    const float by = f16_to_f32((uint16_t)(raw.w[3] >> (8 * ((block(i) + d) & 2))));
    const uint32_t four = funnel_r(raw.w[slot / 4], raw.w[slot / 4 + 1], 8 * (unsigned)(codes(i) & 2));
    return by * (float)(int8_t)(four >> (8 * (slot % 4)));
  }
  MINFER_DEVICE Raw pack8(float (&x)[8]) {
    unsigned m = 0;
    MINFER_UNROLL
    for (int slot = 0; slot < 8; slot++) m = max(m, magnitude(x[slot]));
    m = max(m, shuffle_xor(m, 1));
    m = max(m, shuffle_xor(m, 2));
    const float by = scale(m);
    const uint16_t stored = f32_to_f16(by);
    Raw raw = {{0, 0, 0, stored}};
    MINFER_UNROLL
    for (int slot = 0; slot < 8; slot++) {
      const int c = code(x[slot], by);
      raw.w[slot / 4] |= (uint32_t)(uint8_t)c << (8 * (slot % 4));
      x[slot] = f16_to_f32(stored) * (float)c;
    }
    return raw;
  }
  MINFER_DEVICE void store8(uint8_t* cache, size_t i, const Raw& raw) {
    uint16_t* to = reinterpret_cast<uint16_t*>(cache + codes(i));
    MINFER_UNROLL
    for (int k = 0; k < 4; k++) to[k] = (uint16_t)(raw.w[k / 2] >> (16 * (k % 2)));
    if (i % 32 == 0) *reinterpret_cast<uint16_t*>(cache + block(i) + d) = (uint16_t)raw.w[3];
  }
};
