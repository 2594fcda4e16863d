// minfer_emu.hpp: the vocabulary of minfer.cuh for a host compiler (C++17, GCC or Clang). Its reference is the comment at the head of
// minfer.cuh. A kernel unit compiled with this header becomes a shared object that registers its kernels with the emulator.
//
// Every CUDA thread of a block is a fiber, and all fibers of a block run on one thread of the operating system. A fiber runs until it
// must wait: at a barrier, in a warp collective, for an mbarrier. So plain loads and stores need no locks, and what one thread sees of
// another's writes is decided by the waits alone. To bring out a missing wait
//   - shared memory is filled with a NaN pattern when a block starts, and so is fresh global memory;
//   - asynchronous copies fill their target with that pattern when they start and deliver as late as the waits allow;
//   - products of warpgroups refuse operands that a thread wrote, by a store by width or an asynchronous copy, without fence_async() after it;
//   - blocks run their threads in ascending and in descending order by turns.
// Loads and stores by width are checked for alignment and bounds to the byte; plain ones by guard pages and canaries.
#pragma once
#ifndef __cplusplus
#error "kernels are C++"
#endif
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>

#ifndef MINFER_ARCH
#define MINFER_ARCH 900
#endif
#define MINFER_HAS_BULK (MINFER_ARCH >= 900)
#define MINFER_HAS_WGMMA (MINFER_ARCH == 900)

struct uint3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace minfer_emu {

// Where in the kernel's text a call stands. The vocabulary's functions take it as defaulted last parameters, so that messages can name
// the line of the kernel that waits or faults.
struct Site {
  const char* file;
  int line;
};
#define MINFER_AT const char *at_file = __builtin_FILE(), int at_line = __builtin_LINE()
#define MINFER_HERE \
  ::minfer_emu::Site { at_file, at_line }

enum class Space : uint8_t { none, global, shared };

// A piece of memory that loads and stores by width may touch, remembered so that most checks are two comparisons.
struct Range {
  uintptr_t begin, end;
  Space space;
};

// What a running block shows its threads. The machine derives its own block from it.
struct BlockView {
  uint3 index, dim, grid;
  static constexpr unsigned kRanges = 64;
  Range ranges[kRanges];
  static unsigned slot(uintptr_t address) { return (address >> 8) % kRanges; }
  // Dynamic shared memory, and of each 16 bytes of it which thread wrote them last, other than by a bulk copy.
  struct Writer {
    uint16_t thread;  // from 1; 0: none
    uint16_t fences;  // that it had said before
  };
  uintptr_t dynamic_begin;
  unsigned dynamic_bytes;
  Writer* writers;
};

struct ThreadView {
  uint3 index;
  unsigned linear;  // x fastest
  uint16_t fences;  // fence_async() that it has said
  BlockView* block;
};

// ---- The machine's services: defined in the emulator program.

#define MINFER_SERVICE __attribute__((visibility("default")))

// Checks that [p, p+bytes) lies in memory of that space and is aligned; on failure the launch ends with an error. The slow half of check().
MINFER_SERVICE void check_slow(const void* p, unsigned bytes, unsigned align, Space space, const char* what, Site at);

// Ends the launch with an error: the thread uses a word as it must not.
[[noreturn]] MINFER_SERVICE void refuse(const char* why, Site at);

enum class ArgKind : uint8_t { pointer = 1, i32, u32, i64, f32 };
struct Kernel {
  const char* name;
  const char* params;  // their text, with the brackets
  unsigned threads;    // launch bound
  void (*invoke)(const uint64_t* args);
  unsigned count;
  const ArgKind* kinds;
};
MINFER_SERVICE void register_kernel(const Kernel& kernel);
MINFER_SERVICE void register_symbol(const char* name, const void* data, size_t bytes);

struct SharedSite {
  const char* name;
  unsigned bytes;
  unsigned slot;  // given by the machine at first use; 0: none yet
};
MINFER_SERVICE void* static_shared(SharedSite& site, Site at);
MINFER_SERVICE void* dynamic_shared_base();

MINFER_SERVICE void block_barrier(Site at);
MINFER_SERVICE void named_barrier(int id, int threads, Site at);

// A warp collective: each member lane hands in a pointer to its operands and waits; when all live members have come, the last of them
// runs apply once for all. lanes[i] is lane i's operands, null if lane i is not in `present`. whole: the warp must have 32 live lanes.
using Apply = void (*)(void* const lanes[32], uint32_t present);
MINFER_SERVICE void collective(Apply apply, uint32_t members, void* operands, const char* what, Site at, bool whole = false);

MINFER_SERVICE void async_copy(void* shared, const void* global, bool valid, Site at);
MINFER_SERVICE void async_commit();
MINFER_SERVICE void async_wait(unsigned latest);

MINFER_SERVICE void mbar_init(uint64_t* bar, unsigned count, Site at);
MINFER_SERVICE void mbar_arrive(uint64_t* bar, unsigned expected_bytes, const char* what, Site at);
MINFER_SERVICE void mbar_wait(uint64_t* bar, unsigned parity, Site at);
MINFER_SERVICE void bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar, Site at);
MINFER_SERVICE void fence_async();
// Checks that whoever wrote rows of an operand of a product of warpgroups has said fence_async() since.
MINFER_SERVICE void check_fenced(uint64_t tile, int rows, Site at);
MINFER_SERVICE void dependency_wait();
MINFER_SERVICE void cover(long long row, long long unit, long long token);

// ---- Registration.

template <typename T> constexpr ArgKind kind_of() {
  constexpr bool whole = std::is_integral<T>::value;
  static_assert(std::is_same<T, float>::value || (whole && (sizeof(T) == 4 || sizeof(T) == 8)),
                "a kernel parameter is a pointer, int, unsigned, long long or float");
  if (!whole) return ArgKind::f32;
  if (sizeof(T) == 8) return ArgKind::i64;
  return std::is_signed<T>::value ? ArgKind::i32 : ArgKind::u32;
}
template <typename T> struct Parameter {
  static constexpr ArgKind kind = kind_of<T>();
  static T from(uint64_t bits) {
    T v;
    memcpy(&v, &bits, sizeof v);  // little-endian: the low bytes
    return v;
  }
};
template <typename T> struct Parameter<T*> {
  static constexpr ArgKind kind = ArgKind::pointer;
  static T* from(uint64_t bits) { return reinterpret_cast<T*>(static_cast<uintptr_t>(bits)); }
};
template <typename T> struct Parameter<const T> : Parameter<T> {};

template <size_t... I> struct Indices {};
template <size_t N, size_t... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I> struct MakeIndices<0, I...> { using type = Indices<I...>; };

template <auto F> struct Entry;
template <typename... A, void (*F)(A...)> struct Entry<F> {
  static constexpr ArgKind kinds[sizeof...(A) + 1] = {Parameter<A>::kind...};
  template <size_t... I> static void call(const uint64_t* args, Indices<I...>) { F(Parameter<A>::from(args[I])...); }
  static void invoke(const uint64_t* args) {
    (void)args;
    call(args, typename MakeIndices<sizeof...(A)>::type());
  }
  Entry(const char* name, const char* params, unsigned threads) { register_kernel({name, params, threads, invoke, sizeof...(A), kinds}); }
};
struct Symbol {
  Symbol(const char* name, const void* data, size_t bytes) { register_symbol(name, data, bytes); }
};

}  // namespace minfer_emu

extern "C" __thread minfer_emu::ThreadView* minfer_emu_current __attribute__((tls_model("initial-exec"), visibility("default")));

#define threadIdx (minfer_emu_current->index)
#define blockIdx (minfer_emu_current->block->index)
#define blockDim (minfer_emu_current->block->dim)
#define gridDim (minfer_emu_current->block->grid)

#define MINFER_KERNEL(name, threads, params)                                             \
  static void name params;                                                               \
  static const ::minfer_emu::Entry<&name> minfer_entry_##name(#name, #params, (threads)); \
  static void name params
#define MINFER_KERNEL_RESIDENT(name, threads, blocks, params) MINFER_KERNEL(name, threads, params)
#define MINFER_DEVICE static inline __attribute__((unused))
#define MINFER_TABLE static const
#define MINFER_UNROLL
#define MINFER_SHARED(type, name, extents)                                                             \
  typedef type minfer_type_##name extents;                                                             \
  static ::minfer_emu::SharedSite minfer_site_##name = {#name, sizeof(minfer_type_##name), 0};          \
  minfer_type_##name& name = *static_cast<minfer_type_##name*>(                                        \
      ::minfer_emu::static_shared(minfer_site_##name, ::minfer_emu::Site{__FILE__, __LINE__}))
#define MINFER_BOUNDS(kernel, ...)                              \
  static const long long minfer_bounds_##kernel[] = __VA_ARGS__; \
  static const ::minfer_emu::Symbol minfer_symbol_##kernel("minfer_bounds_" #kernel, minfer_bounds_##kernel, sizeof minfer_bounds_##kernel)
static inline void minfer_cover(long long row, long long unit, long long token = 0) { ::minfer_emu::cover(row, unit, token); }
#define MINFER_COVER(...) minfer_cover(__VA_ARGS__)
#define MINFER_MARK(moment) ((void)0)

// ---- Threads and memory

static inline int lane_index() { return (int)(minfer_emu_current->linear & 31u); }
static inline int warp_index() { return (int)(minfer_emu_current->linear >> 5); }
template <typename T> static inline T* dynamic_shared() { return static_cast<T*>(::minfer_emu::dynamic_shared_base()); }
template <typename T> static inline T* dynamic_shared_at(unsigned align) {
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(::minfer_emu::dynamic_shared_base()) + align - 1) & ~(uintptr_t)(align - 1));
}

namespace minfer_emu {
static inline void check(const void* p, unsigned bytes, unsigned align, Space space, const char* what, Site at) {
  const uintptr_t a = reinterpret_cast<uintptr_t>(p);
  const Range& r = minfer_emu_current->block->ranges[BlockView::slot(a)];
  if (__builtin_expect(a >= r.begin && a + bytes <= r.end && r.space == space && a % align == 0, 1)) return;
  check_slow(p, bytes, align, space, what, at);
}
template <typename T> static inline T load(const void* p, unsigned align, Space space, const char* what, Site at) {
  check(p, sizeof(T), align, space, what, at);
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void note_writer(const void* p) {
  const ThreadView& me = *minfer_emu_current;
  const uintptr_t at = reinterpret_cast<uintptr_t>(p) - me.block->dynamic_begin;
  if (at < me.block->dynamic_bytes) me.block->writers[at / 16] = {(uint16_t)(me.linear + 1), me.fences};
}
}  // namespace minfer_emu

#define MINFER_LOAD(name, type, align, space) \
  static inline type name(const void* p, MINFER_AT) { return ::minfer_emu::load<type>(p, align, ::minfer_emu::Space::space, #name, MINFER_HERE); }
MINFER_LOAD(load1, uint8_t, 1, global)
MINFER_LOAD(load2, uint16_t, 2, global)
MINFER_LOAD(load4, uint32_t, 4, global)
MINFER_LOAD(load8, uint2, 8, global)
MINFER_LOAD(load16, uint4, 16, global)
MINFER_LOAD(load4_by1, uint32_t, 1, global)
MINFER_LOAD(load4_by2, uint32_t, 2, global)
MINFER_LOAD(stream16, uint4, 16, global)
MINFER_LOAD(fresh4, uint32_t, 4, global)
MINFER_LOAD(fresh8, uint2, 8, global)
MINFER_LOAD(fresh16, uint4, 16, global)
MINFER_LOAD(shared1, uint8_t, 1, shared)
MINFER_LOAD(shared2, uint16_t, 2, shared)
MINFER_LOAD(shared4, uint32_t, 4, shared)
MINFER_LOAD(shared8, uint2, 8, shared)
MINFER_LOAD(shared16, uint4, 16, shared)
#undef MINFER_LOAD

static inline void store8(void* p, uint2 v, MINFER_AT) {
  ::minfer_emu::check(p, 8, 8, ::minfer_emu::Space::none, "store8", MINFER_HERE);
  memcpy(p, &v, sizeof v);
  ::minfer_emu::note_writer(p);
}
static inline void store16(void* p, uint4 v, MINFER_AT) {
  ::minfer_emu::check(p, 16, 16, ::minfer_emu::Space::none, "store16", MINFER_HERE);
  memcpy(p, &v, sizeof v);
  ::minfer_emu::note_writer(p);
}

// ---- Arithmetic

static inline unsigned f32_bits(float x) {
  unsigned b;
  memcpy(&b, &x, sizeof b);
  return b;
}
static inline float bits_f32(unsigned b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}
static inline int dp4a(int a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8) sum += (unsigned)((int8_t)((unsigned)a >> i) * (int8_t)((unsigned)b >> i));
  return (int)sum;
}
static inline int dp4a_u(unsigned a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8) sum += (unsigned)((int)(uint8_t)(a >> i) * (int8_t)((unsigned)b >> i));
  return (int)sum;
}
static inline unsigned byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned s = selector >> (4 * i) & 15u;
    unsigned v = (unsigned)(bytes >> (8 * (s & 7u))) & 0xffu;
    if (s & 8u) v = v & 0x80u ? 0xffu : 0u;
    r |= v << (8 * i);
  }
  return r;
}
static inline unsigned funnel_r(unsigned lo, unsigned hi, unsigned shift) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (shift & 31u)); }

static inline float f16_to_f32(uint16_t h) {
  const unsigned sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_f32(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x0400u) return bits_f32(sign | f32_bits((float)magnitude * 0x1p-24f));
  return bits_f32(sign | ((magnitude << 13) + 0x38000000u));
}
static inline uint16_t f32_to_f16(float x) {
  const unsigned bits = f32_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u)                                      // denormal: 0.5f has the half's last place, 2^-24
    return (uint16_t)(sign | (f32_bits(bits_f32(magnitude) + 0.5f) - 0x3f000000u));
  return (uint16_t)(sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13));
}
static inline float bf16_to_f32(uint16_t h) { return bits_f32((unsigned)h << 16); }
static inline uint16_t f32_to_bf16(float x) {
  const unsigned bits = f32_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline unsigned f16_pair(float lo, float hi) { return f32_to_f16(lo) | (unsigned)f32_to_f16(hi) << 16; }
static inline unsigned bf16_pair(float lo, float hi) { return f32_to_bf16(lo) | (unsigned)f32_to_bf16(hi) << 16; }
static inline float e8m0_to_f32(uint8_t e) { return bits_f32(e ? (unsigned)e << 23 : 0x00400000u); }
static inline float e8m0_half_to_f32(uint8_t e) { return bits_f32(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }
static inline int round_even_int(float x) {
  if (x != x) return 0;
  if (x >= 0x1p31f) return INT32_MAX;
  if (x <= -0x1p31f) return INT32_MIN;
  return (int)nearbyintf(x);
}
static inline float exp_approx(float x) { return expf(x); }
static inline float minfer_rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define rsqrtf minfer_rsqrtf  // some C libraries have one of their own

#define MINFER_MIN_MAX(type)                                            \
  static inline type min(type a, type b) { return b < a ? b : a; }      \
  static inline type max(type a, type b) { return a < b ? b : a; }
MINFER_MIN_MAX(int)
MINFER_MIN_MAX(unsigned)
MINFER_MIN_MAX(long)
MINFER_MIN_MAX(unsigned long)
MINFER_MIN_MAX(long long)
MINFER_MIN_MAX(unsigned long long)
#undef MINFER_MIN_MAX
static inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
static inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
static inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
static inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

// ---- Warps

#define MINFER_FULL_WARP 0xffffffffu

namespace minfer_emu {

// What a read of a lane that has exited gives, a float's NaN; also the pattern of memory that nobody has written.
constexpr uint64_t kPoison = 0x7fff7fff7fff7fffull;

struct ShuffleLane {
  uint64_t in, out;
  int source;
};
static inline void apply_shuffle(void* const lanes[32], uint32_t present) {
  for (uint32_t left = present; left; left &= left - 1) {
    ShuffleLane& l = *static_cast<ShuffleLane*>(lanes[__builtin_ctz(left)]);
    l.out = present >> l.source & 1u ? static_cast<const ShuffleLane*>(lanes[l.source])->in : kPoison;
  }
}
template <typename T> static inline T shuffle_from(T v, int source, unsigned members, const char* what, Site at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  ShuffleLane l = {0, 0, source};
  memcpy(&l.in, &v, sizeof v);
  collective(apply_shuffle, members, &l, what, at);
  memcpy(&v, &l.out, sizeof v);
  return v;
}

struct FloatLane {
  float v;
};
// The butterfly that minfer.cuh writes out with xor 16, 8, 4, 2, 1, for all lanes at once. F is +, or the maximum.
template <typename F> static inline void butterfly(void* const lanes[32], uint32_t present, F combine) {
  float v[32], w[32];
  const float poison = bits_f32((unsigned)kPoison);
  for (int i = 0; i < 32; i++) v[i] = present >> i & 1u ? static_cast<const FloatLane*>(lanes[i])->v : poison;
  for (int x = 16; x > 0; x >>= 1) {
    for (int i = 0; i < 32; i++) w[i] = combine(v[i], v[i ^ x]);
    memcpy(v, w, sizeof v);
  }
  for (uint32_t left = present; left; left &= left - 1) static_cast<FloatLane*>(lanes[__builtin_ctz(left)])->v = v[__builtin_ctz(left)];
}
static inline void apply_sum(void* const lanes[32], uint32_t present) {
  butterfly(lanes, present, [](float a, float b) { return a + b; });
}
static inline void apply_max(void* const lanes[32], uint32_t present) {
  butterfly(lanes, present, [](float a, float b) { return fmaxf(a, b); });
}

struct BallotLane {
  bool in;
  unsigned out;
};
static inline void apply_ballot(void* const lanes[32], uint32_t present) {
  unsigned votes = 0;
  for (uint32_t left = present; left; left &= left - 1)
    if (static_cast<const BallotLane*>(lanes[__builtin_ctz(left)])->in) votes |= left & -left;
  for (uint32_t left = present; left; left &= left - 1) static_cast<BallotLane*>(lanes[__builtin_ctz(left)])->out = votes;
}
static inline void apply_nothing(void* const*, uint32_t) {}

}  // namespace minfer_emu

template <typename T> static inline T shuffle_xor(T v, int x, unsigned members = MINFER_FULL_WARP, MINFER_AT) {
  return ::minfer_emu::shuffle_from(v, (lane_index() ^ x) & 31, members, "shuffle_xor", MINFER_HERE);
}
template <typename T> static inline T shuffle_down(T v, int d, unsigned members = MINFER_FULL_WARP, MINFER_AT) {
  const int lane = lane_index();
  return ::minfer_emu::shuffle_from(v, lane + d < 32 ? lane + d : lane, members, "shuffle_down", MINFER_HERE);
}
template <typename T> static inline T shuffle(T v, int lane, unsigned members = MINFER_FULL_WARP, MINFER_AT) {
  return ::minfer_emu::shuffle_from(v, lane & 31, members, "shuffle", MINFER_HERE);
}
static inline float warp_sum(float v, MINFER_AT) {
  ::minfer_emu::FloatLane l = {v};
  ::minfer_emu::collective(::minfer_emu::apply_sum, MINFER_FULL_WARP, &l, "warp_sum", MINFER_HERE);
  return l.v;
}
static inline float warp_max(float v, MINFER_AT) {
  ::minfer_emu::FloatLane l = {v};
  ::minfer_emu::collective(::minfer_emu::apply_max, MINFER_FULL_WARP, &l, "warp_max", MINFER_HERE);
  return l.v;
}
static inline unsigned warp_ballot(bool p, MINFER_AT) {
  ::minfer_emu::BallotLane l = {p, 0};
  ::minfer_emu::collective(::minfer_emu::apply_ballot, MINFER_FULL_WARP, &l, "warp_ballot", MINFER_HERE);
  return l.out;
}
static inline bool warp_any(bool p, MINFER_AT) {
  ::minfer_emu::BallotLane l = {p, 0};
  ::minfer_emu::collective(::minfer_emu::apply_ballot, MINFER_FULL_WARP, &l, "warp_any", MINFER_HERE);
  return l.out != 0;
}
static inline bool warp_all(bool p, MINFER_AT) {
  ::minfer_emu::BallotLane l = {!p, 0};
  ::minfer_emu::collective(::minfer_emu::apply_ballot, MINFER_FULL_WARP, &l, "warp_all", MINFER_HERE);
  return l.out == 0;
}
static inline void warp_barrier(unsigned members = MINFER_FULL_WARP, MINFER_AT) {
  ::minfer_emu::collective(::minfer_emu::apply_nothing, members, nullptr, "warp_barrier", MINFER_HERE);
}

namespace minfer_emu {

// Matrix fragments as the PTX manual lays them out: lane = 4 * group + index; see "Matrix Fragments for mma.m16n8k16" and ".m16n8k32".
// C and D: c[0], c[1] are row group, columns 2 * index and + 1; c[2], c[3] row group + 8.
struct MmaLane {
  void* c;
  const unsigned *a, *b;
};
static inline void apply_mma_s8(void* const lanes[32], uint32_t) {
  int8_t a[16][32], b[32][8];
  for (int lane = 0; lane < 32; lane++) {
    const MmaLane& l = *static_cast<const MmaLane*>(lanes[lane]);
    const int group = lane >> 2, index = lane & 3;
    for (int i = 0; i < 4; i++)
      for (int r = 0; r < 4; r++) a[group + 8 * (r & 1)][4 * index + 16 * (r >> 1) + i] = (int8_t)(l.a[r] >> (8 * i));
    for (int i = 0; i < 4; i++)
      for (int r = 0; r < 2; r++) b[4 * index + 16 * r + i][group] = (int8_t)(l.b[r] >> (8 * i));
  }
  for (int lane = 0; lane < 32; lane++) {
    int* c = static_cast<int*>(static_cast<const MmaLane*>(lanes[lane])->c);
    for (int r = 0; r < 4; r++) {
      const int row = (lane >> 2) + 8 * (r >> 1), col = 2 * (lane & 3) + (r & 1);
      unsigned sum = (unsigned)c[r];
      for (int k = 0; k < 32; k++) sum += (unsigned)(a[row][k] * b[k][col]);
      c[r] = (int)sum;
    }
  }
}
// Products are exact and summed in double; a tensor core truncates while it aligns them, so the last bits may differ on a GPU.
template <float (*Widen)(uint16_t)> static inline void apply_mma_half(void* const lanes[32], uint32_t) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const MmaLane& l = *static_cast<const MmaLane*>(lanes[lane]);
    const int group = lane >> 2, index = lane & 3;
    for (int i = 0; i < 2; i++)
      for (int r = 0; r < 4; r++) a[group + 8 * (r & 1)][2 * index + 8 * (r >> 1) + i] = Widen((uint16_t)(l.a[r] >> (16 * i)));
    for (int i = 0; i < 2; i++)
      for (int r = 0; r < 2; r++) b[2 * index + 8 * r + i][group] = Widen((uint16_t)(l.b[r] >> (16 * i)));
  }
  for (int lane = 0; lane < 32; lane++) {
    float* c = static_cast<float*>(static_cast<const MmaLane*>(lanes[lane])->c);
    for (int r = 0; r < 4; r++) {
      const int row = (lane >> 2) + 8 * (r >> 1), col = 2 * (lane & 3) + (r & 1);
      double sum = c[r];
      for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][col];
      c[r] = (float)sum;
    }
  }
}

struct LdmatrixLane {
  unsigned* r;
  const uint16_t* row;
  int tiles;
  bool trans;
};
static inline void apply_ldmatrix(void* const lanes[32], uint32_t) {
  unsigned result[32][4];
  const int tiles = static_cast<const LdmatrixLane*>(lanes[0])->tiles;
  const bool trans = static_cast<const LdmatrixLane*>(lanes[0])->trans;
  for (int lane = 0; lane < 32; lane++)
    for (int t = 0; t < tiles; t++) {
      unsigned v = 0;
      for (int i = 0; i < 2; i++) {
        const int row = trans ? 2 * (lane & 3) + i : lane >> 2, col = trans ? lane >> 2 : 2 * (lane & 3) + i;
        v |= (unsigned)static_cast<const LdmatrixLane*>(lanes[8 * t + row])->row[col] << (16 * i);
      }
      result[lane][t] = v;
    }
  for (int lane = 0; lane < 32; lane++) memcpy(static_cast<const LdmatrixLane*>(lanes[lane])->r, result[lane], 4 * tiles);
}
static inline void whole_warp(Apply apply, void* operands, const char* what, Site at) { collective(apply, MINFER_FULL_WARP, operands, what, at, true); }
static inline void ldmatrix(unsigned* r, const void* p, int tiles, bool trans, const char* what, Site at) {
  if (lane_index() < 8 * tiles) check(p, 16, 16, Space::shared, what, at);
  LdmatrixLane l = {r, static_cast<const uint16_t*>(p), tiles, trans};
  whole_warp(apply_ldmatrix, &l, what, at);
}

}  // namespace minfer_emu

static inline void mma_s8(int c[4], const unsigned a[4], const unsigned b[2], MINFER_AT) {
  ::minfer_emu::MmaLane l = {c, a, b};
  ::minfer_emu::whole_warp(::minfer_emu::apply_mma_s8, &l, "mma_s8", MINFER_HERE);
}
static inline void mma_f16(float c[4], const unsigned a[4], const unsigned b[2], MINFER_AT) {
  ::minfer_emu::MmaLane l = {c, a, b};
  ::minfer_emu::whole_warp(::minfer_emu::apply_mma_half<f16_to_f32>, &l, "mma_f16", MINFER_HERE);
}
static inline void mma_bf16(float c[4], const unsigned a[4], const unsigned b[2], MINFER_AT) {
  ::minfer_emu::MmaLane l = {c, a, b};
  ::minfer_emu::whole_warp(::minfer_emu::apply_mma_half<bf16_to_f32>, &l, "mma_bf16", MINFER_HERE);
}
static inline void ldmatrix4(unsigned r[4], const void* p, MINFER_AT) { ::minfer_emu::ldmatrix(r, p, 4, false, "ldmatrix4", MINFER_HERE); }
static inline void ldmatrix2(unsigned r[2], const void* p, MINFER_AT) { ::minfer_emu::ldmatrix(r, p, 2, false, "ldmatrix2", MINFER_HERE); }
static inline void ldmatrix4_trans(unsigned r[4], const void* p, MINFER_AT) { ::minfer_emu::ldmatrix(r, p, 4, true, "ldmatrix4_trans", MINFER_HERE); }
static inline void ldmatrix2_trans(unsigned r[2], const void* p, MINFER_AT) { ::minfer_emu::ldmatrix(r, p, 2, true, "ldmatrix2_trans", MINFER_HERE); }

// ---- Blocks

static inline void block_barrier(MINFER_AT) { ::minfer_emu::block_barrier(MINFER_HERE); }
static inline void named_barrier(int id, int threads, MINFER_AT) { ::minfer_emu::named_barrier(id, threads, MINFER_HERE); }
static inline void async_copy16(void* shared, const void* global, MINFER_AT) { ::minfer_emu::async_copy(shared, global, true, MINFER_HERE); }
static inline void async_copy16_or_zero(void* shared, const void* global, bool valid, MINFER_AT) {
  ::minfer_emu::async_copy(shared, global, valid, MINFER_HERE);
}
static inline void async_commit() { ::minfer_emu::async_commit(); }
template <int N> static inline void async_wait() { ::minfer_emu::async_wait(N); }
static inline void mbar_init(uint64_t* bar, unsigned count, MINFER_AT) { ::minfer_emu::mbar_init(bar, count, MINFER_HERE); }
static inline void mbar_arrive(uint64_t* bar, MINFER_AT) { ::minfer_emu::mbar_arrive(bar, 0, "mbar_arrive", MINFER_HERE); }
static inline void mbar_init_warps(uint64_t* bar, unsigned warps, MINFER_AT) { ::minfer_emu::mbar_init(bar, warps, MINFER_HERE); }
static inline void mbar_arrive_warp(uint64_t* bar, MINFER_AT) {
  warp_barrier(MINFER_FULL_WARP, at_file, at_line);
  if (lane_index() == 0) ::minfer_emu::mbar_arrive(bar, 0, "mbar_arrive_warp", MINFER_HERE);
}
static inline void mbar_follow(uint64_t*, bool) {}
static inline void mbar_wait(uint64_t* bar, unsigned parity, MINFER_AT) { ::minfer_emu::mbar_wait(bar, parity, MINFER_HERE); }
static inline void fence_async() { ::minfer_emu::fence_async(); }
#if MINFER_HAS_BULK
static inline void mbar_expect(uint64_t* bar, unsigned bytes, MINFER_AT) { ::minfer_emu::mbar_arrive(bar, bytes, "mbar_expect", MINFER_HERE); }
static inline void bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar, MINFER_AT) {
  ::minfer_emu::bulk_copy(shared, global, bytes, bar, MINFER_HERE);
}
#endif
static inline void prefetch_l2(const void* global, unsigned bytes, MINFER_AT) {
  if (bytes) ::minfer_emu::check(global, bytes, 16, ::minfer_emu::Space::global, "prefetch_l2", MINFER_HERE);
}

namespace minfer_emu {
// Where 8 of the 16 numbers of a row of an operand lie. Places change by address, as in the hardware.
static inline uintptr_t wgmma_chunk(uint64_t tile, int row, int half) {
  const uintptr_t at = tile + row / 8 * 1024 + row % 8 * 128 + 16 * half;
  return at ^ (at >> 7 & 7) << 4;
}
}  // namespace minfer_emu

#if MINFER_HAS_WGMMA
// ---- Warpgroups. Products are worked out when they are waited for, of what the operands are then: what reads sums too early, or writes
// operands too early, shows.

template <int N> struct WgmmaSums {
  static_assert(N == 64 || N == 128 || N == 160, "as many columns as minfer.cuh has products of");
  float v[N / 2];
  struct Product {
    uint64_t a, b;
    int group;
  };
  Product under_way[64];
  int products, group;
  bool begun;
};
static inline uint64_t wgmma_tile(const void* p, MINFER_AT) {
  ::minfer_emu::check(p, 1024, 1024, ::minfer_emu::Space::shared, "wgmma_tile", MINFER_HERE);
  return reinterpret_cast<uintptr_t>(p);
}
static inline uint64_t wgmma_further(uint64_t tile, int bytes) { return tile + bytes; }

namespace minfer_emu {

template <int N> struct WgmmaLane {
  WgmmaSums<N>* sums;
  int latest;
  Site at;
};
// The products of the 16 rows of a warp, of all groups but the latest. They are exact, and 16 of them are summed in double, as by mma_bf16.
template <int N> static inline void apply_wgmma(void* const lanes[32], uint32_t) {
  const WgmmaLane<N>& first = *static_cast<const WgmmaLane<N>*>(lanes[0]);
  WgmmaSums<N>* of[32];
  for (int lane = 0; lane < 32; lane++) {
    of[lane] = static_cast<const WgmmaLane<N>*>(lanes[lane])->sums;
    bool same = of[lane]->products == of[0]->products && of[lane]->group == of[0]->group;
    for (int i = 0; same && i < of[0]->products; i++) {
      const auto &p = of[lane]->under_way[i], &q = of[0]->under_way[i];
      same = p.a == q.a && p.b == q.b && p.group == q.group;
    }
    if (!same) refuse("wgmma_wait: the lanes of this warp have started different products", first.at);
  }
  const int begin = 16 * (warp_index() % 4), products = of[0]->products, before = of[0]->group - first.latest;
  float c[16][N];
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < N / 2; i++) c[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = of[lane]->v[i];
  int left = 0;
  for (int i = 0; i < products; i++) {
    const auto p = of[0]->under_way[i];
    if (p.group >= before) {
      for (WgmmaSums<N>* sums : of) sums->under_way[left] = p;
      left++;
      continue;
    }
    double b[16][N];
    for (int n = 0; n < N; n++)
      for (int k = 0; k < 16; k++) b[k][n] = bf16_to_f32(reinterpret_cast<const uint16_t*>(wgmma_chunk(p.b, n, k / 8))[k % 8]);
    for (int row = 0; row < 16; row++) {
      double sum[N];
      for (int n = 0; n < N; n++) sum[n] = c[row][n];
      for (int k = 0; k < 16; k++) {
        const double a = bf16_to_f32(reinterpret_cast<const uint16_t*>(wgmma_chunk(p.a, begin + row, k / 8))[k % 8]);
        for (int n = 0; n < N; n++) sum[n] += a * b[k][n];
      }
      for (int n = 0; n < N; n++) c[row][n] = (float)sum[n];
    }
  }
  for (int lane = 0; lane < 32; lane++) {
    of[lane]->products = left;
    of[lane]->begun = false;
    for (int i = 0; i < N / 2; i++) of[lane]->v[i] = c[lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
  }
}

}  // namespace minfer_emu

template <int N> static inline void wgmma_begin(WgmmaSums<N>& sums) { sums.begun = true; }
template <int N> static inline void wgmma_bf16(WgmmaSums<N>& sums, uint64_t a, uint64_t b, MINFER_AT) {
  const auto operand = [&](uint64_t tile, int rows) {
    ::minfer_emu::check(reinterpret_cast<const void*>(tile & ~(uint64_t)127), 128 * rows, 1024, ::minfer_emu::Space::shared, "wgmma_bf16", MINFER_HERE);
    if (tile % 32) ::minfer_emu::refuse("wgmma_bf16: an operand begins within 16 numbers of a row", MINFER_HERE);
    if (minfer_emu_current->linear % 128 == 0) ::minfer_emu::check_fenced(tile, rows, MINFER_HERE);
  };
  operand(a, 64);
  operand(b, N);
  if (!sums.begun) ::minfer_emu::refuse("wgmma_bf16: no wgmma_begin() since the sums were waited for", MINFER_HERE);
  if (sums.products == 64) ::minfer_emu::refuse("wgmma_bf16: 64 products are under way that nobody has waited for; the emulator keeps no more", MINFER_HERE);
  sums.under_way[sums.products++] = {a, b, sums.group};
}
template <int N> static inline void wgmma_commit(WgmmaSums<N>& sums) { sums.group++; }
template <int LATEST, int N> static inline void wgmma_wait(WgmmaSums<N>& sums, MINFER_AT) {
  ::minfer_emu::WgmmaLane<N> l = {&sums, LATEST, MINFER_HERE};
  ::minfer_emu::whole_warp(::minfer_emu::apply_wgmma<N>, &l, "wgmma_wait", MINFER_HERE);
  // The four warps meet, by the last of the named barriers.
  ::minfer_emu::named_barrier(15 - warp_index() / 4, 128, MINFER_HERE);
}
#endif

// ---- Grid: blocks run on several threads of the operating system, so these are real atomics.

namespace minfer_emu {
template <typename T, typename F> static inline T atomic_update(T* p, F next, const char* what, Site at) {
  check(p, sizeof(T), sizeof(T), Space::none, what, at);
  T old, updated;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do updated = next(old);
  while (!__atomic_compare_exchange(p, &old, &updated, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
}  // namespace minfer_emu
static inline float atomic_add(float* p, float v, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [v](float old) { return old + v; }, "atomic_add", MINFER_HERE);
}
static inline int atomic_add(int* p, int v, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [v](int old) { return (int)((unsigned)old + (unsigned)v); }, "atomic_add", MINFER_HERE);
}
static inline unsigned atomic_add(unsigned* p, unsigned v, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [v](unsigned old) { return old + v; }, "atomic_add", MINFER_HERE);
}
static inline unsigned atomic_max(unsigned* p, unsigned v, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [v](unsigned old) { return max(old, v); }, "atomic_max", MINFER_HERE);
}
static inline unsigned long long atomic_max(unsigned long long* p, unsigned long long v, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [v](unsigned long long old) { return max(old, v); }, "atomic_max", MINFER_HERE);
}
static inline unsigned atomic_inc(unsigned* p, unsigned last, MINFER_AT) {
  return ::minfer_emu::atomic_update(p, [last](unsigned old) { return old >= last ? 0u : old + 1u; }, "atomic_inc", MINFER_HERE);
}
static inline unsigned arrive_gpu(unsigned* p, unsigned last, MINFER_AT) { return atomic_inc(p, last, at_file, at_line); }
static inline void fence_gpu() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// Launches never overlap here. That a kernel launched as dependent calls dependency_wait at all is checked at each block's end.
static inline void dependency_wait() { ::minfer_emu::dependency_wait(); }
static inline void dependency_launch() {}
