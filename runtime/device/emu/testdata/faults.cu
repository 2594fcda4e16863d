// Kernels that do what must be found.
#include "minfer.cuh"

// Plain accesses, at an offset from p in bytes.
MINFER_KERNEL(plain_read, 32, (const uint8_t* w, float* y, long long offset)) {
  if (threadIdx.x == 5) y[0] = w[offset];
}
MINFER_KERNEL(plain_write, 32, (uint8_t* w, long long offset)) {
  if (threadIdx.x == 5) w[offset] = 1;
}
// By width, all 16 bytes of it.
MINFER_KERNEL(wide_read, 32, (const uint8_t* w, float* y, long long offset)) {
  if (threadIdx.x == 5) y[0] = (float)load16(w + offset).x;
}
MINFER_KERNEL(byte_read, 32, (const uint8_t* w, float* y, long long offset)) {
  if (threadIdx.x == 5) y[0] = (float)load1(w + offset);
}
MINFER_KERNEL(wrong_space, 32, (float* y, int which)) {
  MINFER_SHARED(unsigned, s, [4]);
  unsigned local = 1;
  s[0] = 1;
  if (which == 0) y[0] = (float)load4(s);
  if (which == 1) y[0] = (float)shared4(y);
  if (which == 2) y[0] = (float)load4(&local);
}
MINFER_KERNEL(shared_overrun, 32, (float* y, int n)) {
  MINFER_SHARED(float, small, [7]);
  volatile float* p = small;
  if (threadIdx.x < (unsigned)n) p[threadIdx.x] = 1;
  block_barrier();
  y[threadIdx.x] = p[0];
}
MINFER_KERNEL(dynamic_overrun, 32, (float* y, int n)) {
  volatile float* p = dynamic_shared<float>();
  if (threadIdx.x < (unsigned)n) p[threadIdx.x] = 1;
  block_barrier();
  y[threadIdx.x] = p[0];
}
MINFER_KERNEL(divide, 32, (int* y, int by)) { y[threadIdx.x] = 7 / by; }
MINFER_KERNEL(deep_stack, 32, (int* y, int n)) {
  volatile int big[50000];
  for (int i = 0; i < n; i++) big[i] = i;
  y[threadIdx.x] = big[threadIdx.x];
}

// Half the block waits where the other half never comes.
MINFER_KERNEL(half_barrier, 64, (float* y)) {
  MINFER_SHARED(uint64_t, never, [1]);
  if (threadIdx.x == 0) mbar_init(never, 1);
  block_barrier();
  if (threadIdx.x < 32) mbar_wait(never, 0);
  block_barrier();
  y[threadIdx.x] = 1;
}
MINFER_KERNEL(two_barriers, 64, (float* y)) {
  if (threadIdx.x < 32) {
    block_barrier();
  } else {
    block_barrier();
  }
  y[threadIdx.x] = 1;
}
MINFER_KERNEL(split_warp, 32, (float* y)) {
  if (threadIdx.x < 16) y[threadIdx.x] = shuffle_xor(1.0f, 1);
  else y[threadIdx.x] = warp_sum(1.0f);
}
MINFER_KERNEL(not_a_member, 32, (float* y)) { y[threadIdx.x] = shuffle_xor(1.0f, 1, 0x0000ffffu); }
MINFER_KERNEL(part_warp_mma, 16, (int* y)) {
  int c[4] = {0, 0, 0, 0};
  const unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  mma_s8(c, a, b);
  y[threadIdx.x] = c[0];
}
MINFER_KERNEL(named_counts, 64, (float* y)) {
  named_barrier(3, threadIdx.x < 32 ? 64 : 96);
  y[threadIdx.x] = 1;
}

// Missing waits. forget 0: right; 1: no wait; 2: no barrier after it.
MINFER_KERNEL(forgetful_async, 64, (const float* x, float* y, int forget)) {
  MINFER_SHARED(float4, s, [64]);
  s[threadIdx.x] = make_float4(0, 0, 0, 0);
  block_barrier();
  async_copy16(&s[threadIdx.x], x + 4 * threadIdx.x);
  async_commit();
  if (forget != 1) async_wait<0>();
  if (forget != 2) block_barrier();
  y[threadIdx.x] = s[63 - threadIdx.x].x;
}
// Two copies, of which the first alone is waited for.
MINFER_KERNEL(impatient_async, 32, (const float* x, float* y)) {
  MINFER_SHARED(float4, s, [2][32]);
  for (int i = 0; i < 2; i++) {
    async_copy16(&s[i][threadIdx.x], x + 128 * i + 4 * threadIdx.x);
    async_commit();
  }
  async_wait<1>();
  y[threadIdx.x] = s[0][threadIdx.x].x;
  y[32 + threadIdx.x] = s[1][threadIdx.x].x;
}
// Threads read what a neighbour writes: forget the barrier and one of the two orders finds it.
MINFER_KERNEL(forgetful_shared, 64, (float* y, int forget, int neighbour)) {
  MINFER_SHARED(float, s, [64]);
  s[threadIdx.x] = 1;
  if (!forget) block_barrier();
  y[threadIdx.x] = s[max(0, min((int)threadIdx.x + neighbour, 63))];
}
#if MINFER_HAS_BULK
// forget 0: right; 1: no wait; 2: no fence; 3: nothing waited for at the end; 4: expects more than is copied; 5: no mbar_init; 6: copies twice to one place.
MINFER_KERNEL(forgetful_bulk, 64, (const float* x, float* y, int forget)) {
  MINFER_SHARED(float, s, [64]);
  MINFER_SHARED(uint64_t, bar, [1]);
  if (threadIdx.x == 0) {
    if (forget != 5) mbar_init(bar, 1);
    if (forget != 2) fence_async();
    mbar_expect(bar, forget == 4 || forget == 6 ? 512 : 256);
    bulk_copy(s, x, 256, bar);
    if (forget == 6) bulk_copy(s, x, 256, bar);
  }
  block_barrier();
  if (forget == 3) return;
  if (forget != 1) mbar_wait(bar, 0);
  y[threadIdx.x] = s[threadIdx.x];
  if (forget == 1) mbar_wait(bar, 0);
}
MINFER_KERNEL(odd_bulk, 32, (const float* x, float* y, int offset, int bytes)) {
  MINFER_SHARED(float, s, [64]);
  MINFER_SHARED(uint64_t, bar, [1]);
  if (threadIdx.x == 0) {
    mbar_init(bar, 1);
    fence_async();
    mbar_expect(bar, (unsigned)bytes);
    bulk_copy(s, x + offset, (unsigned)bytes, bar);
    mbar_wait(bar, 0);
    y[0] = s[0];
  }
}
#endif

MINFER_KERNEL(endless, 64, (volatile int* flag)) {
  if (blockIdx.x == 2 && threadIdx.x == 33)
    while (*flag == 0) {
    }
}
MINFER_KERNEL(big_static, 32, (float* y)) {
  MINFER_SHARED(float, a, [6 << 10]);
  MINFER_SHARED(float, b, [7 << 10]);
  y[threadIdx.x] = a[0] = b[0] = 1;
}
MINFER_KERNEL(one_block, 128, (float* y, int n, float s)) {
  if (threadIdx.x < (unsigned)n) y[threadIdx.x] = s;
}
