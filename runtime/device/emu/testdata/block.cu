// Barriers, asynchronous copies and mbarriers.
#include "minfer.cuh"

// The sum of n elements, a block of 256 threads for each row: warp sums, one barrier, a last warp.
MINFER_KERNEL(row_sums, 256, (const float* x, float* y, int n)) {
  MINFER_SHARED(float, partial, [8]);
  const float* row = x + (long long)blockIdx.x * n;
  float v = 0;
  for (int i = threadIdx.x; i < n; i += 256) v += row[i];
  v = warp_sum(v);
  if (lane_index() == 0) partial[warp_index()] = v;
  block_barrier();
  if (warp_index() == 0) {
    v = warp_sum(lane_index() < 8 ? partial[lane_index()] : 0.0f);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
}

// The same with shuffles written out: for the benchmark.
MINFER_KERNEL(row_sums_shuffled, 256, (const float* x, float* y, int n)) {
  MINFER_SHARED(float, partial, [8]);
  const float* row = x + (long long)blockIdx.x * n;
  float v = 0;
  for (int i = threadIdx.x; i < n; i += 256) v += row[i];
  for (int d = 16; d > 0; d >>= 1) v += shuffle_xor(v, d);
  if (lane_index() == 0) partial[warp_index()] = v;
  block_barrier();
  if (warp_index() == 0) {
    v = lane_index() < 8 ? partial[lane_index()] : 0.0f;
    for (int d = 4; d > 0; d >>= 1) v += shuffle_xor(v, d);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
  }
}

// A tree in shared memory with a barrier for each level; any power of two of threads.
MINFER_KERNEL(tree_sum, 1024, (const float* x, float* y)) {
  float* s = dynamic_shared<float>();
  s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    block_barrier();
    if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}

// Threads that have nothing to do leave before the barrier.
MINFER_KERNEL(early_leavers, 256, (float* y)) {
  MINFER_SHARED(float, s, [64]);
  if (threadIdx.x >= 64) return;
  s[threadIdx.x] = (float)threadIdx.x;
  block_barrier();
  y[threadIdx.x] = s[63 - threadIdx.x];
}

// Two halves of a block meet at barriers of their own, a different number of times; then all together.
MINFER_KERNEL(two_teams, 256, (int* out)) {
  MINFER_SHARED(int, token, [2]);
  const int team = threadIdx.x >= 128;
  if (threadIdx.x % 128 == 0) token[team] = 0;
  const int rounds = team ? 5 : 3;
  for (int i = 0; i < rounds; i++) {
    named_barrier(1 + team, 128);
    if (threadIdx.x % 128 == (unsigned)i) token[team] += 1 << i;
    named_barrier(1 + team, 128);
  }
  block_barrier();
  out[threadIdx.x] = token[0] + 100 * token[1];
}

// y = sum over tiles of x * tile number, tiles of 256 float4 streamed through three stages of shared memory with cp.async.
MINFER_KERNEL(async_pipeline, 256, (const float* x, float* y, int tiles)) {
  MINFER_SHARED(float4, stage, [3][256]);
  const int t = threadIdx.x;
  for (int i = 0; i < 2; i++) {
    if (i < tiles) async_copy16(&stage[i][t], x + 4 * (i * 256 + t));
    async_commit();
  }
  float sum = 0;
  for (int i = 0; i < tiles; i++) {
    async_wait<1>();
    block_barrier();  // everybody's part of tile i has come; everybody has read tile i-1
    const int next = i + 2;
    if (next < tiles) async_copy16(&stage[next % 3][t], x + 4 * (next * 256 + t));
    async_commit();
    const float4 v = stage[i % 3][255 - t];  // somebody else's part
    sum += (v.x + v.y + v.z + v.w) * (float)(i + 1);
  }
  y[t] = sum;
}

// The tail beyond n is zeros and is not read.
MINFER_KERNEL(async_tail, 256, (const float* x, float* y, int n)) {
  MINFER_SHARED(float4, s, [256]);
  const int first = 4 * threadIdx.x;
  async_copy16_or_zero(&s[threadIdx.x], x + first, first < n);
  async_commit();
  async_wait<0>();
  block_barrier();
  y[threadIdx.x] = s[255 - threadIdx.x].w;
}

// An mbarrier in place of a block barrier, twice over: both parities.
MINFER_KERNEL(mbar_meeting, 128, (int* out)) {
  MINFER_SHARED(uint64_t, bar, [1]);
  MINFER_SHARED(int, s, [128]);
  if (threadIdx.x == 0) {
    mbar_init(bar, 128);
    fence_async();
  }
  block_barrier();
  int v = (int)threadIdx.x;
  for (unsigned round = 0; round < 4; round++) {
    s[threadIdx.x] = v;
    mbar_arrive(bar);
    mbar_wait(bar, round & 1);
    v = s[(threadIdx.x + 1) % 128] + 1;
    block_barrier();
  }
  out[threadIdx.x] = v;
}

#if MINFER_HAS_BULK
// The ring of the decode kernels: one warp streams tiles of 1024 bytes with bulk copies through four stages; four warps add them up. Full
// barriers count one arrival and the bytes, empty ones an arrival for each consumer warp.
MINFER_KERNEL(bulk_ring, 160, (const unsigned* x, unsigned* y, int tiles)) {
  MINFER_SHARED(unsigned, stage, [4][256]);
  MINFER_SHARED(uint64_t, full, [4]);
  MINFER_SHARED(uint64_t, empty, [4]);
  const unsigned* source = x + (long long)blockIdx.x * tiles * 256;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; i++) {
      mbar_init(&full[i], 1);
      mbar_init(&empty[i], 4);
    }
    fence_async();
  }
  block_barrier();
  if (warp_index() == 4) {
    if (lane_index() == 0) {
      for (int i = 0; i < tiles; i++) {
        const unsigned turn = (unsigned)i / 4;
        mbar_wait(&empty[i % 4], (turn & 1) ^ 1);  // the first time round at once
        mbar_expect(&full[i % 4], 1024);
        bulk_copy(stage[i % 4], source + i * 256, 512, &full[i % 4]);
        bulk_copy(stage[i % 4] + 128, source + i * 256 + 128, 512, &full[i % 4]);
      }
    }
    return;
  }
  unsigned sum = 0;
  for (int i = 0; i < tiles; i++) {
    mbar_wait(&full[i % 4], (unsigned)i / 4 & 1);
    sum = sum * 3 + stage[i % 4][threadIdx.x] + stage[i % 4][threadIdx.x + 128];
    warp_barrier();
    if (lane_index() == 0) mbar_arrive(&empty[i % 4]);
  }
  y[blockIdx.x * 128 + threadIdx.x] = sum;
}
#endif
