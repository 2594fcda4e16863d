// mma.cuh: operands of products on tensor cores, as tiles of bf16 in shared memory.
#pragma once
#include "decode.cuh"

// A row of a tile is 128 numbers, 16 chunks of 8. Chunks change places by row, so that one chunk of eight rows, eight chunks of a row,
// and one chunk of each of four units of two rows lie on banks of their own.
constexpr int tile_elems = 128, tile_row_bytes = 2 * tile_elems, tile_chunks = tile_elems / 8;
MINFER_DEVICE int tile_at(int row, int chunk) { return row * tile_row_bytes + ((chunk ^ (row & 7) ^ (chunk >> 3 << 1)) << 4); }

// The same of a tile that warpgroups multiply (wgmma_tile): the first 64 numbers of all its rows, then the others.
template <int ROWS> MINFER_DEVICE int wgmma_tile_at(int row, int chunk) { return chunk / 8 * ROWS * 128 + row * 128 + (((chunk ^ row) & 7) << 4); }

// Decodes a unit in f32, rounds it to bf16 and stores its chunks of 8 numbers, chunk c at tile + at(c).
template <typename Unit, typename At> MINFER_DEVICE void unit_to_tile(const Unit& r, uint8_t* tile, At at) {
  // A byte becomes a float as part of the fraction of another: of 2^23, or, where it has seven bits, of 1, in steps of 2^-7. The second
  // needs no subtraction: what it begins with goes into the offset. Signed bytes are moved by 128 first.
  constexpr bool near = Unit::seven_bits && !Unit::has_bias;
  constexpr uint32_t flip = Unit::unsigned_codes ? 0u : 0x80808080u;
  constexpr float zero = 8388608.0f + (Unit::unsigned_codes ? 0.0f : 128.0f) - (float)Unit::add;
  MINFER_UNROLL
  for (int c = 0; c < Unit::elems / 8; c++) {
    float v[8];
    MINFER_UNROLL
    for (int q = 0; q < 2; q++) {
      const uint32_t codes = unit_codes(r, 2 * c + q) ^ flip;
      MINFER_UNROLL
      for (int k = 0; k < 4; k++) {
        const int g = (8 * c + 4 * q + k) / Unit::group;
        const float scale = unit_scale(r, g), offset = Unit::has_offset ? unit_offset(r, g) : 0.0f;
        float f;
        if (near) {
          f = fmaf(128.0f * scale, bits_f32(byte_perm(codes, 0x3f000000u, 0x7044u | (unsigned)k << 8)), (float)(Unit::add - 128) * scale - offset);
        } else {
          f = bits_f32(byte_perm(codes, 0x4b000000u, 0x7440u | (unsigned)k)) - zero;
          if (Unit::has_bias) f += unit_bias(r, g);
          f = fmaf(scale, f, -offset);
        }
        v[4 * q + k] = f;
      }
    }
    store16(tile + at(c), make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])));
  }
}

// Two numbers as pairs of f16 whose sums they are, but for what lies 2^-22 below them, or below 2^-25.
MINFER_DEVICE void split_f16(float x, float y, unsigned& high, unsigned& low) {
  high = f16_pair(x, y);
  low = f16_pair(x - f16_to_f32((uint16_t)high), y - f16_to_f32((uint16_t)(high >> 16)));
}
