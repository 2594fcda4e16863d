// What concerns several blocks, and what the host reads.
#include "minfer.cuh"

MINFER_BOUNDS(last_block_sum, {256, 2, 32, 256 * 2 * 32});

// Each block adds its part; the block that arrives last, whichever it is, adds the parts up in order.
MINFER_KERNEL(last_block_sum, 256, (const float* x, float* parts, unsigned* arrived, float* y, int n, int ordered)) {
  MINFER_SHARED(float, s, [8]);
  MINFER_SHARED(unsigned, last, [1]);
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  float v = warp_sum(i < n ? x[i] : 0.0f);
  if (lane_index() == 0) s[warp_index()] = v;
  block_barrier();
  if (threadIdx.x == 0) {
    v = 0;
    for (int k = 0; k < 8; k++) v += s[k];
    parts[blockIdx.x] = v;
    if (!ordered) fence_gpu();
    *last = (ordered ? arrive_gpu(arrived, gridDim.x - 1) : atomic_inc(arrived, gridDim.x - 1)) == gridDim.x - 1;
  }
  block_barrier();
  if (*last && threadIdx.x == 0) {
    v = 0;
    for (unsigned b = 0; b < gridDim.x; b++) v += bits_f32(fresh4(parts + b));
    *y = v;
  }
}

MINFER_KERNEL(atomics, 256, (float* f, int* i, unsigned* u, unsigned* m, unsigned long long* key, const unsigned* x)) {
  const unsigned k = blockIdx.x * blockDim.x + threadIdx.x;
  atomic_add(f, 1.0f);
  atomic_add(i, -2);
  atomic_add(u, 3u);
  atomic_max(m, x[k]);
  atomic_max(key, (unsigned long long)x[k] << 32 | k);
}

// One unit of a row for each thread, in `rounds` rounds of 256: the kernel that the whole project is about.
MINFER_KERNEL(cover_units, 256, (int units, int rounds)) {
  for (int r = 0; r < rounds; r++) {
    const int u = (int)threadIdx.x + 256 * r;
    if (u < units) MINFER_COVER(blockIdx.x, u);
  }
}

MINFER_KERNEL(cover_tokens, 32, (int shift, int twice)) {
  MINFER_COVER(blockIdx.x + shift, threadIdx.x, blockIdx.y);
  if (twice) MINFER_COVER(blockIdx.x + shift, threadIdx.x, blockIdx.y);
}

MINFER_KERNEL(dependent, 32, (float* y, int waits)) {
  dependency_launch();
  if (waits) dependency_wait();
  y[threadIdx.x] = 1;
}
