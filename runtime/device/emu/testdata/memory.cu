// Loads and stores by width, threads' coordinates, shared memory.
#include "minfer.cuh"

// One thread. in: bytes at offset 16. out: each load's words one after the other.
MINFER_KERNEL(load_widths, 1, (const uint8_t* in, unsigned* out)) {
  int n = 0;
  out[n++] = load1(in + 1);
  out[n++] = load2(in + 2);
  out[n++] = load4(in + 4);
  const uint2 d = load8(in + 8);
  out[n++] = d.x, out[n++] = d.y;
  uint4 q = load16(in + 16);
  out[n++] = q.x, out[n++] = q.y, out[n++] = q.z, out[n++] = q.w;
  q = stream16(in + 32);
  out[n++] = q.x, out[n++] = q.y, out[n++] = q.z, out[n++] = q.w;
  out[n++] = load4_by1(in + 3);
  out[n++] = load4_by2(in + 6);
  out[n++] = fresh4(in + 12);
  out[n++] = fresh8(in + 8).y;
  out[n++] = fresh16(in + 48).w;
}

MINFER_KERNEL(store_widths, 1, (unsigned* out)) {
  store8(out, make_uint2(1, 2));
  store16(out + 4, make_uint4(3, 4, 5, 6));
}

// Each thread of a three-dimensional grid writes where it is.
MINFER_KERNEL(coordinates, 1024, (unsigned* out)) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned* o = out + 8 * (block * threads + thread);
  o[0] = threadIdx.x, o[1] = threadIdx.y, o[2] = threadIdx.z;
  o[3] = blockIdx.x, o[4] = blockIdx.y, o[5] = blockIdx.z;
  o[6] = (unsigned)lane_index(), o[7] = (unsigned)warp_index();
}

// Rows of a tile become columns through static shared memory; 32 x 8 threads, a 32 x 32 tile.
MINFER_KERNEL(transpose_static, 256, (const float* in, float* out)) {
  MINFER_SHARED(float, tile, [32][33]);
  for (int r = 0; r < 32; r += 8) tile[threadIdx.y + r][threadIdx.x] = in[(threadIdx.y + r) * 32 + threadIdx.x];
  block_barrier();
  for (int r = 0; r < 32; r += 8) out[(threadIdx.y + r) * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y + r];
}

// Reverses a block's elements through dynamic shared memory, read back by width.
MINFER_KERNEL(reverse_dynamic, 1024, (const unsigned* in, unsigned* out)) {
  unsigned* d = dynamic_shared<unsigned>();
  const unsigned n = blockDim.x, base = blockIdx.x * n;
  d[n - 1 - threadIdx.x] = in[base + threadIdx.x];
  block_barrier();
  if (threadIdx.x % 4 == 0) {
    const uint4 q = shared16(d + threadIdx.x);
    store16(out + base + threadIdx.x, q);
    if (shared8(d + threadIdx.x).y != q.y || shared4(d + threadIdx.x + 3) != q.w) out[base] = 0xdeadbeefu;
  }
}

// What a thread finds before anybody has written.
MINFER_KERNEL(fresh_shared, 32, (float* out)) {
  MINFER_SHARED(float, nothing, [32]);
  out[2 * threadIdx.x] = nothing[threadIdx.x];
  out[2 * threadIdx.x + 1] = dynamic_shared<float>()[threadIdx.x];
  block_barrier();
  nothing[threadIdx.x] = dynamic_shared<float>()[threadIdx.x] = 1;
}

MINFER_TABLE unsigned squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
MINFER_KERNEL(table, 8, (unsigned* out)) {
  MINFER_UNROLL
  for (int i = 0; i < 1; i++) out[threadIdx.x] = squares[threadIdx.x] + load4(&squares[threadIdx.x]);
}
