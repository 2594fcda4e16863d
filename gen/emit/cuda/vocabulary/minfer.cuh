// minfer.cuh: the vocabulary that kernels are written in.
//
// A kernel is CUDA C++ over plain pointers that says everything beyond C++ through the names below: no PTX, no intrinsic and
// no CUDA header of its own. Each name has two definitions: here, for nvcc (11.8 and later; sm_80 is the baseline, sm_90 adds
// to it), and in minfer_emu.hpp, for a host compiler, where the emulator device runs the very same text.
//
//   MINFER_KERNEL(name, threads, (params)) { body }           entry point `name`, launched with at most `threads` threads a block;
//                                                             parameters are pointers, int, unsigned, long long or float
//   MINFER_KERNEL_RESIDENT(name, threads, blocks, (params))   the same, registers limited so that `blocks` blocks fit on an SM
//   MINFER_DEVICE                                             qualifier of a helper function: MINFER_DEVICE float f(int x) {...}
//   MINFER_TABLE                                              qualifier of a constant table at file scope, indexed plainly
//   MINFER_UNROLL                                             unrolls the loop that follows (#pragma unroll may be written too)
//   MINFER_BOUNDS(kernel, {...})                              exported array of 64-bit integers `minfer_bounds_<kernel>`
//   MINFER_COVER(row, unit) or (row, unit, token)             coverage witness: this thread processes that cell, counted in the
//                                                             emulator, on a GPU only if compiled with -DMINFER_WITNESS
//   MINFER_MARK(moment)                                       a moment (0..255) of this block goes to a log with its time, on a GPU if
//                                                             compiled with -DMINFER_MARKS, and costs nothing otherwise; said by one thread
//   MINFER_ARCH                                               800, 900, ... as __CUDA_ARCH__; MINFER_HAS_BULK says whether the
//                                                             names marked [bulk] exist, MINFER_HAS_WGMMA the same of [wgmma]
//
// Threads and memory
//   threadIdx, blockIdx, blockDim, gridDim                    as in CUDA; lane_index(), warp_index() within a block
//   MINFER_SHARED(type, name, extents);                       static shared array, 16-byte aligned: MINFER_SHARED(float, tile, [8][33]);
//   dynamic_shared<T>()                                       the launch's dynamic shared memory, 16-byte aligned
//   dynamic_shared_at<T>(align)                               its first address that is a multiple of `align`, a power of two
//   load1 load2 load4 load8 load16 (p)                        uint8_t, uint16_t, uint32_t, uint2, uint4 from global memory that
//                                                             nobody writes during the launch; p aligned to the width
//   load4_by2(p), load4_by1(p)                                uint32_t, little-endian, from 2- or 1-byte aligned p
//   stream16(p)                                               load16 that does not stay in L1: for data read once
//   fresh4 fresh8 fresh16 (p)                                 loads from L2: for data that this launch's other blocks, or an
//                                                             overlapped predecessor, have written
//   shared1 shared2 shared4 shared8 shared16 (p)              loads of that width from shared memory
//   store8(p, uint2), store16(p, uint4)                       stores of that width, global or shared; plain stores otherwise
//
// Arithmetic
//   dp4a(int a, int b, int c)                                 c + sum of four products of signed bytes
//   dp4a_u(unsigned a, int b, int c)                          the same, a's bytes unsigned
//   byte_perm(a, b, selector)                                 each nibble of selector picks a byte: 0..3 of a, 4..7 of b; 8 more: its
//                                                             sign, eight times
//   funnel_r(lo, hi, shift)                                   low word of hi:lo >> (shift & 31)
//   f16_to_f32(uint16_t), f32_to_f16(float)                   IEEE half, to nearest even; a NaN becomes 0x7fff
//   bf16_to_f32(uint16_t), f32_to_bf16(float)                 the same for bfloat16
//   f16_pair(float lo, float hi), bf16_pair(lo, hi)           two of either in a word, lo in the low half
//   e8m0_to_f32(uint8_t)                                      2^(e-127): 0 is the denormal 2^-127, 255 is infinity (2^128)
//   e8m0_half_to_f32(uint8_t)                                 2^(e-128), exact for every e
//   f32_bits(float), bits_f32(unsigned)                       the same 32 bits
//   round_even_int(float)                                     to nearest even, saturating, NaN to 0
//   exp_approx(x)                                             the GPU's short exponential; expf(x) is the accurate one
//   fmaf sqrtf rsqrtf expf sinf cosf fabsf fminf fmaxf min max   as CUDA has them
//
// Warps. `members` names the lanes that take part; each of them calls with the same mask. The default is the whole warp.
//   shuffle_xor(v, x[, members]), shuffle_down(v, d[, members]), shuffle(v, lane[, members])   int, unsigned, float, 64-bit
//   warp_sum(float), warp_max(float)                          over the whole warp by xor 16, 8, 4, 2, 1: every lane gets it
//   warp_any(bool), warp_all(bool), warp_ballot(bool)         over the whole warp
//   warp_barrier([members])
//   mma_s8(int c[4], const unsigned a[4], const unsigned b[2])      m16n8k32, row.col, s8 x s8 + s32
//   mma_f16(float c[4], const unsigned a[4], const unsigned b[2])   m16n8k16, row.col, f16 x f16 + f32; mma_bf16 alike
//   ldmatrix4(unsigned r[4], p), ldmatrix2(unsigned r[2], p)  8x8 tiles of 16 bits; lane i gives row i%8 of tile i/8
//   ldmatrix4_trans, ldmatrix2_trans
//
// Blocks
//   block_barrier()                                           all threads of the block, from the same place
//   named_barrier(id, threads)                                id 1..15; `threads` (a multiple of 32) meet there
//   async_copy16(shared, global)                              starts a copy of 16 bytes; both aligned to 16
//   async_copy16_or_zero(shared, global, valid)               the same; not valid: writes zeros, reads nothing
//   async_commit(), async_wait<N>()                           closes a group; waits until at most the N latest are in flight.
//                                                             Only the caller's own copies: block_barrier() before others read
//   mbar_init(bar, count)                                     uint64_t bar in shared memory; one thread, then fence_async(), then
//                                                             block_barrier()
//   mbar_arrive(bar), mbar_wait(bar, parity)                  wait until the phase of that parity (0 first) has completed
//   mbar_init_warps(bar, warps)                               mbar_init for warps that arrive as one, by either of the next two
//   mbar_arrive_warp(bar)                                     all lanes of the warp: what each did before is done for those who waited
//   mbar_follow(bar, led)                                     all lanes, after one of them may have arrived for the warp: led is true in that
//                                                             lane. It costs nothing and does nothing unless compiled with
//                                                             -DMINFER_LANES_ARRIVE: then each lane arrives, for checkers to which an arrival
//                                                             tells of what its own lane did alone
//   mbar_expect(bar, bytes)                                   [bulk] arrives once and adds `bytes` to what the phase waits for
//   bulk_copy(shared, global, bytes, bar)                     [bulk] starts a copy that completes on bar; one thread calls it;
//                                                             addresses and bytes are multiples of 16. L2 gives up what it brought
//                                                             first: a stream that is read once would drive out the rest
//   prefetch_l2(global, bytes)                                [bulk: elsewhere nothing] into L2; multiples of 16
//   fence_async()                                             makes mbar_init, and shared memory just read or written, safe to use for
//                                                             the copies, and the products of warpgroups, that follow
//
// Warpgroups [wgmma]: four warps, from a multiple of four on, say each of these together.
//   WgmmaSums<N>                                              64 x N sums in f32, N one of 64, 128, 160: v[4*j + 2*half + pair] of lane
//                                                             4*group + seat of warp w is that of row 16*w + group + 8*half and of column
//                                                             8*j + 2*seat + pair
//   wgmma_tile(p)                                             rows of 64 numbers of 16 bits, 128 bytes each, from p on, a multiple of 1024
//                                                             bytes; of row r, chunk c of 16 bytes lies at place c ^ (r & 7)
//   wgmma_further(tile, bytes)                                the same so many bytes on: 1024 for each eight rows, 32 for each 16 numbers of a row
//   wgmma_begin(sums)                                         before the first product after waiting, or after touching the sums
//   wgmma_bf16(sums, a, b)                                    starts: sums[m][n] += a[m][k] * b[n][k] over 16 numbers k
//   wgmma_commit(sums), wgmma_wait<K>(sums)                   closes a group of products; waits until at most the K latest are under way, in
//                                                             any of the four warps. Only then may the sums be touched, or what the products
//                                                             read be written
//
// Grid
//   atomic_add(p, v)   float, int, unsigned;  atomic_max(p, v)   unsigned, unsigned long long;  each returns the old value
//   atomic_inc(p, last)                                       old >= last ? 0 : old + 1; returns the old value: the last of n
//                                                             arrivers gets n-1, and the counter is 0 again
//   arrive_gpu(p, last)                                       atomic_inc that orders for the whole GPU: what this thread wrote, or knew of by a
//                                                             block_barrier(), is there for those who arrive later and ask afterwards
//   fence_gpu()                                               orders this thread's writes for the whole GPU
//   dependency_wait(), dependency_launch()                    wait for / let start the overlapped neighbour; nothing below sm_90
//
// Toolkits. mbarrier, griddepcontrol and everything not marked [bulk] need CUDA 11.8 (PTX 7.8). The names marked [bulk] need PTX 8.0,
// that is CUDA 12.0, and sm_90: elsewhere MINFER_HAS_BULK is 0 and they are not declared. A kernel that uses them stands between
// `#if MINFER_HAS_BULK` and `#endif`, and a module compiled without them simply lacks that kernel; the host learns of it when it
// looks the kernel up. The names marked [wgmma] are the same with MINFER_HAS_WGMMA: they need CUDA 12.0 too, and the target sm_90a, whose
// code runs on sm_90 alone.
//
// Bits. The emulator contracts nothing: a*b+c rounds twice, fmaf once. For the same bits on a GPU compile with -fmad=false, or write
// fmaf wherever one rounding is meant. The mma accumulation order and expf, sinf, cosf, rsqrtf, exp_approx differ between machines.
#pragma once

#ifndef __CUDACC__
#include "minfer_emu.hpp"
#else

#include <stdint.h>

#ifdef __CUDA_ARCH__
#define MINFER_ARCH __CUDA_ARCH__
static_assert(MINFER_ARCH >= 800, "minfer kernels need sm_80 or later");
#else
#define MINFER_ARCH 0
#endif
#if MINFER_ARCH >= 900 && __CUDACC_VER_MAJOR__ >= 12
#define MINFER_HAS_BULK 1
#else
#define MINFER_HAS_BULK 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && MINFER_HAS_BULK
#define MINFER_HAS_WGMMA 1
#else
#define MINFER_HAS_WGMMA 0
#endif

#define MINFER_KERNEL(name, threads, params) extern "C" __global__ void __launch_bounds__(threads) name params
#define MINFER_KERNEL_RESIDENT(name, threads, blocks, params) extern "C" __global__ void __launch_bounds__(threads, blocks) name params
#define MINFER_DEVICE static __device__ __forceinline__
#define MINFER_TABLE static __device__ const
#define MINFER_UNROLL _Pragma("unroll")
#define MINFER_SHARED(type, name, extents) __shared__ __align__(16) type name extents
#define MINFER_BOUNDS(kernel, ...) extern "C" __device__ const long long minfer_bounds_##kernel[] = __VA_ARGS__

#ifdef MINFER_WITNESS
// Set by the host before a launch: counts[(token * rows + row) * units + unit], and cells outside counted apart.
struct MinferWitness {
  unsigned* counts;
  unsigned* outside;
  long long rows, units, tokens;
};
extern "C" __device__ MinferWitness minfer_witness = {0, 0, 0, 0, 0};
MINFER_DEVICE void minfer_cover(long long row, long long unit, long long token = 0) {
  const MinferWitness w = minfer_witness;
  if (!w.counts) return;
  const bool inside = row >= 0 && row < w.rows && unit >= 0 && unit < w.units && token >= 0 && token < w.tokens;
  atomicAdd(inside ? w.counts + (token * w.rows + row) * w.units + unit : w.outside, 1u);
}
#define MINFER_COVER(...) minfer_cover(__VA_ARGS__)
#else
#define MINFER_COVER(...) ((void)0)
#endif

#ifdef MINFER_MARKS
// Set by the host: two words for each mark, the time in ns; then unit << 48 | moment << 40 | multiprocessor << 24 | block.
struct MinferMarks {
  unsigned long long* log;
  unsigned* used;
  unsigned long long room, unit;
};
extern "C" __device__ MinferMarks minfer_marks = {0, 0, 0, 0};
MINFER_DEVICE void minfer_mark(unsigned moment) {
  const MinferMarks m = minfer_marks;
  if (!m.log) return;
  unsigned long long now;
  unsigned sm;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now) : : "memory");
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  const unsigned i = atomicAdd(m.used, 1u);
  if (i >= m.room) return;
  m.log[2 * i] = now;
  m.log[2 * i + 1] = m.unit << 48 | (unsigned long long)moment << 40 | (unsigned long long)sm << 24 |
                     (blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}
#define MINFER_MARK(moment) minfer_mark(moment)
#else
#define MINFER_MARK(moment) ((void)0)
#endif

// Threads and memory

MINFER_DEVICE unsigned minfer_linear_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
MINFER_DEVICE int lane_index() { return (int)(minfer_linear_thread() & 31u); }
MINFER_DEVICE int warp_index() { return (int)(minfer_linear_thread() >> 5); }

extern __shared__ __align__(128) unsigned char minfer_dynamic_shared[];
template <typename T> MINFER_DEVICE T* dynamic_shared() { return reinterpret_cast<T*>(minfer_dynamic_shared); }

MINFER_DEVICE unsigned minfer_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
template <typename T> MINFER_DEVICE T* dynamic_shared_at(unsigned align) {
  return reinterpret_cast<T*>(minfer_dynamic_shared + (-minfer_shared_address(minfer_dynamic_shared) & (align - 1)));
}

MINFER_DEVICE uint8_t load1(const void* p) { return __ldg(static_cast<const unsigned char*>(p)); }
MINFER_DEVICE uint16_t load2(const void* p) { return __ldg(static_cast<const unsigned short*>(p)); }
MINFER_DEVICE uint32_t load4(const void* p) { return __ldg(static_cast<const unsigned*>(p)); }
MINFER_DEVICE uint2 load8(const void* p) { return __ldg(static_cast<const uint2*>(p)); }
MINFER_DEVICE uint4 load16(const void* p) { return __ldg(static_cast<const uint4*>(p)); }
MINFER_DEVICE uint32_t load4_by2(const void* p) {
  const unsigned short* q = static_cast<const unsigned short*>(p);
  return (uint32_t)__ldg(q) | (uint32_t)__ldg(q + 1) << 16;
}
MINFER_DEVICE uint32_t load4_by1(const void* p) {
  const unsigned char* q = static_cast<const unsigned char*>(p);
  return (uint32_t)__ldg(q) | (uint32_t)__ldg(q + 1) << 8 | (uint32_t)__ldg(q + 2) << 16 | (uint32_t)__ldg(q + 3) << 24;
}
MINFER_DEVICE uint4 stream16(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(p)));
  return v;
}
MINFER_DEVICE uint32_t fresh4(const void* p) { return __ldcg(static_cast<const unsigned*>(p)); }
MINFER_DEVICE uint2 fresh8(const void* p) { return __ldcg(static_cast<const uint2*>(p)); }
MINFER_DEVICE uint4 fresh16(const void* p) { return __ldcg(static_cast<const uint4*>(p)); }

template <typename T> MINFER_DEVICE T minfer_load_shared(const void* p) {
  __builtin_assume(__isShared(p));
  return *static_cast<const T*>(p);
}
MINFER_DEVICE uint8_t shared1(const void* p) { return minfer_load_shared<uint8_t>(p); }
MINFER_DEVICE uint16_t shared2(const void* p) { return minfer_load_shared<uint16_t>(p); }
MINFER_DEVICE uint32_t shared4(const void* p) { return minfer_load_shared<uint32_t>(p); }
MINFER_DEVICE uint2 shared8(const void* p) { return minfer_load_shared<uint2>(p); }
MINFER_DEVICE uint4 shared16(const void* p) { return minfer_load_shared<uint4>(p); }
MINFER_DEVICE void store8(void* p, uint2 v) { *static_cast<uint2*>(p) = v; }
MINFER_DEVICE void store16(void* p, uint4 v) { *static_cast<uint4*>(p) = v; }

// Arithmetic

MINFER_DEVICE int dp4a(int a, int b, int c) { return __dp4a(a, b, c); }
MINFER_DEVICE int dp4a_u(unsigned a, int b, int c) {
  int d;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
MINFER_DEVICE unsigned byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}
MINFER_DEVICE unsigned funnel_r(unsigned lo, unsigned hi, unsigned shift) { return __funnelshift_r(lo, hi, shift); }
MINFER_DEVICE unsigned f32_bits(float x) { return __float_as_uint(x); }
MINFER_DEVICE float bits_f32(unsigned x) { return __uint_as_float(x); }
MINFER_DEVICE float f16_to_f32(uint16_t h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
MINFER_DEVICE uint16_t f32_to_f16(float x) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
MINFER_DEVICE float bf16_to_f32(uint16_t h) { return __uint_as_float((unsigned)h << 16); }
MINFER_DEVICE uint16_t f32_to_bf16(float x) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
MINFER_DEVICE unsigned f16_pair(float lo, float hi) {
  unsigned d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
MINFER_DEVICE unsigned bf16_pair(float lo, float hi) {
  unsigned d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
MINFER_DEVICE float e8m0_to_f32(uint8_t e) { return __uint_as_float(e ? (unsigned)e << 23 : 0x00400000u); }
MINFER_DEVICE float e8m0_half_to_f32(uint8_t e) { return __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }
MINFER_DEVICE int round_even_int(float x) { return __float2int_rn(x); }
MINFER_DEVICE float exp_approx(float x) { return __expf(x); }

// Warps

#define MINFER_FULL_WARP 0xffffffffu
template <typename T> MINFER_DEVICE T shuffle_xor(T v, int x, unsigned members = MINFER_FULL_WARP) { return __shfl_xor_sync(members, v, x); }
template <typename T> MINFER_DEVICE T shuffle_down(T v, int d, unsigned members = MINFER_FULL_WARP) { return __shfl_down_sync(members, v, d); }
template <typename T> MINFER_DEVICE T shuffle(T v, int lane, unsigned members = MINFER_FULL_WARP) { return __shfl_sync(members, v, lane); }
MINFER_DEVICE float warp_sum(float v) {
  MINFER_UNROLL
  for (int x = 16; x > 0; x >>= 1) v += __shfl_xor_sync(MINFER_FULL_WARP, v, x);
  return v;
}
MINFER_DEVICE float warp_max(float v) {
  MINFER_UNROLL
  for (int x = 16; x > 0; x >>= 1) v = fmaxf(v, __shfl_xor_sync(MINFER_FULL_WARP, v, x));
  return v;
}
MINFER_DEVICE bool warp_any(bool p) { return __any_sync(MINFER_FULL_WARP, p); }
MINFER_DEVICE bool warp_all(bool p) { return __all_sync(MINFER_FULL_WARP, p); }
MINFER_DEVICE unsigned warp_ballot(bool p) { return __ballot_sync(MINFER_FULL_WARP, p); }
MINFER_DEVICE void warp_barrier(unsigned members = MINFER_FULL_WARP) { __syncwarp(members); }

MINFER_DEVICE void mma_s8(int c[4], const unsigned a[4], const unsigned b[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MINFER_DEVICE void mma_f16(float c[4], const unsigned a[4], const unsigned b[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MINFER_DEVICE void mma_bf16(float c[4], const unsigned a[4], const unsigned b[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MINFER_DEVICE void ldmatrix4(unsigned r[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(minfer_shared_address(p)) : "memory");
}
MINFER_DEVICE void ldmatrix4_trans(unsigned r[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(minfer_shared_address(p)) : "memory");
}
MINFER_DEVICE void ldmatrix2(unsigned r[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(minfer_shared_address(p)) : "memory");
}
MINFER_DEVICE void ldmatrix2_trans(unsigned r[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"(minfer_shared_address(p)) : "memory");
}

// Blocks

MINFER_DEVICE void block_barrier() { __syncthreads(); }
MINFER_DEVICE void named_barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

MINFER_DEVICE void async_copy16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(minfer_shared_address(shared)), "l"(__cvta_generic_to_global(global)) : "memory");
}
MINFER_DEVICE void async_copy16_or_zero(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               ::"r"(minfer_shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(valid ? 16 : 0) : "memory");
}
MINFER_DEVICE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> MINFER_DEVICE void async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

MINFER_DEVICE void mbar_init(uint64_t* bar, unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(minfer_shared_address(bar)), "r"(count) : "memory");
}
MINFER_DEVICE void mbar_arrive(uint64_t* bar) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(minfer_shared_address(bar)) : "memory");
}
#ifdef MINFER_LANES_ARRIVE
MINFER_DEVICE void mbar_init_warps(uint64_t* bar, unsigned warps) { mbar_init(bar, 32 * warps); }
MINFER_DEVICE void mbar_arrive_warp(uint64_t* bar) { mbar_arrive(bar); }
MINFER_DEVICE void mbar_follow(uint64_t* bar, bool led) {
  if (warp_any(led) && !led) mbar_arrive(bar);
}
#else
MINFER_DEVICE void mbar_init_warps(uint64_t* bar, unsigned warps) { mbar_init(bar, warps); }
MINFER_DEVICE void mbar_arrive_warp(uint64_t* bar) {
  warp_barrier();
  if (lane_index() == 0) mbar_arrive(bar);
}
MINFER_DEVICE void mbar_follow(uint64_t*, bool) {}
#endif
MINFER_DEVICE void mbar_wait(uint64_t* bar, unsigned parity) {
  unsigned done;
  do {
#if MINFER_ARCH >= 900
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(minfer_shared_address(bar)), "r"(parity) : "memory");
#else
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(minfer_shared_address(bar)), "r"(parity) : "memory");
#endif
  } while (!done);
}
MINFER_DEVICE void fence_async() {
#if MINFER_HAS_BULK
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
  __threadfence_block();
#endif
}
#if MINFER_HAS_BULK
MINFER_DEVICE void mbar_expect(uint64_t* bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(minfer_shared_address(bar)), "r"(bytes) : "memory");
}
MINFER_DEVICE void bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar) {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               ::"r"(minfer_shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(minfer_shared_address(bar)), "l"(policy)
               : "memory");
}
#endif
MINFER_DEVICE void prefetch_l2(const void* global, unsigned bytes) {
#if MINFER_HAS_BULK
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(global)), "r"(bytes) : "memory");
#endif
}

#if MINFER_HAS_WGMMA
// Warpgroups

template <int N> struct WgmmaSums { float v[N / 2]; };

// PTX ISA, "Matrix Descriptor Format": the address in 16 bytes; 1024 bytes from eight rows to the next eight; chunks change places within 128 bytes.
MINFER_DEVICE uint64_t wgmma_tile(const void* p) {
  return (uint64_t)(minfer_shared_address(p) >> 4) | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
MINFER_DEVICE uint64_t wgmma_further(uint64_t tile, int bytes) { return tile + (uint64_t)(bytes >> 4); }

// Products run on while the compiler believes its registers still: this is a place that it moves no use of them across.
template <int N> MINFER_DEVICE void minfer_hold(WgmmaSums<N>& sums) {
  MINFER_UNROLL
  for (int i = 0; i < N / 2; i++) asm volatile("" : "+f"(sums.v[i])::"memory");
}
template <int N> MINFER_DEVICE void wgmma_begin(WgmmaSums<N>& sums) {
  minfer_hold(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
template <int N> MINFER_DEVICE void wgmma_commit(WgmmaSums<N>&) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LATEST, int N> MINFER_DEVICE void wgmma_wait(WgmmaSums<N>& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATEST) : "memory");
  minfer_hold(sums);
}

#define MINFER_SUMS8(i) "+f"(v[i]), "+f"(v[i + 1]), "+f"(v[i + 2]), "+f"(v[i + 3]), "+f"(v[i + 4]), "+f"(v[i + 5]), "+f"(v[i + 6]), "+f"(v[i + 7])
#define MINFER_SUMS32(i) MINFER_SUMS8(i), MINFER_SUMS8(i + 8), MINFER_SUMS8(i + 16), MINFER_SUMS8(i + 24)
#define MINFER_WGMMA(N, registers, a_register, b_register, ...)                                                                             \
  MINFER_DEVICE void wgmma_bf16(WgmmaSums<N>& sums, uint64_t a, uint64_t b) {                                                               \
    float(&v)[N / 2] = sums.v;                                                                                                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" registers "}, " a_register ", " b_register ", 1, 1, 1, 0, 0;" \
                 : __VA_ARGS__                                                                                                              \
                 : "l"(a), "l"(b));                                                                                                         \
  }
#define MINFER_REGISTERS32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MINFER_REGISTERS64 MINFER_REGISTERS32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MINFER_REGISTERS80 MINFER_REGISTERS64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
MINFER_WGMMA(64, MINFER_REGISTERS32, "%32", "%33", MINFER_SUMS32(0))
MINFER_WGMMA(128, MINFER_REGISTERS64, "%64", "%65", MINFER_SUMS32(0), MINFER_SUMS32(32))
MINFER_WGMMA(160, MINFER_REGISTERS80, "%80", "%81", MINFER_SUMS32(0), MINFER_SUMS32(32), MINFER_SUMS8(64), MINFER_SUMS8(72))
#endif

// Grid

MINFER_DEVICE float atomic_add(float* p, float v) { return atomicAdd(p, v); }
MINFER_DEVICE int atomic_add(int* p, int v) { return atomicAdd(p, v); }
MINFER_DEVICE unsigned atomic_add(unsigned* p, unsigned v) { return atomicAdd(p, v); }
MINFER_DEVICE unsigned atomic_max(unsigned* p, unsigned v) { return atomicMax(p, v); }
MINFER_DEVICE unsigned long long atomic_max(unsigned long long* p, unsigned long long v) { return atomicMax(p, v); }
MINFER_DEVICE unsigned atomic_inc(unsigned* p, unsigned last) { return atomicInc(p, last); }
MINFER_DEVICE unsigned arrive_gpu(unsigned* p, unsigned last) {
  unsigned old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(__cvta_generic_to_global(p)), "r"(last) : "memory");
  return old;
}
MINFER_DEVICE void fence_gpu() { __threadfence(); }
MINFER_DEVICE void dependency_wait() {
#if MINFER_ARCH >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
MINFER_DEVICE void dependency_launch() {
#if MINFER_ARCH >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif  // __CUDACC__
