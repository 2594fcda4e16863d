// block.cpp: runs the blocks of a launch. Every CUDA thread is a fiber; those of a block share one system thread and hand it on when they
// wait. Nothing here is shared between system threads but LaunchState.
#include "machine.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#if defined(__linux__) || defined(__APPLE__)
#include <ucontext.h>
#endif

extern "C" {
__thread minfer_emu::ThreadView* minfer_emu_current = nullptr;
}

// ---- Switching between fibers: callee-saved registers go on the stack, the stack pointer is the context.

#define MINFER_STRING_(x) #x
#define MINFER_STRING(x) MINFER_STRING_(x)
#define MINFER_C_NAME(x) MINFER_STRING(__USER_LABEL_PREFIX__) #x

#if defined(__x86_64__)
#define MINFER_ASM_CONTEXT 1
asm(".text\n"
    ".globl " MINFER_C_NAME(minfer_emu_switch) "\n" MINFER_C_NAME(minfer_emu_switch) ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rdi\n"
    ".globl " MINFER_C_NAME(minfer_emu_jump) "\n" MINFER_C_NAME(minfer_emu_jump) ":\n"
    "  movq %rdi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
static void* first_context(char* top, void (*entry)()) {
  void** frame = reinterpret_cast<void**>(top) - 8;
  for (int i = 0; i < 6; i++) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(entry);
  frame[7] = nullptr;  // entry's return address; it never returns
  return frame;
}
#elif defined(__aarch64__)
#define MINFER_ASM_CONTEXT 1
asm(".text\n"
    ".globl " MINFER_C_NAME(minfer_emu_switch) "\n" MINFER_C_NAME(minfer_emu_switch) ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n"
    "  mov x0, x1\n"
    ".globl " MINFER_C_NAME(minfer_emu_jump) "\n" MINFER_C_NAME(minfer_emu_jump) ":\n"
    "  mov sp, x0\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
static void* first_context(char* top, void (*entry)()) {
  void** frame = reinterpret_cast<void**>(top) - 20;
  for (int i = 0; i < 20; i++) frame[i] = nullptr;
  frame[11] = reinterpret_cast<void*>(entry);  // x30
  return frame;
}
#else
#error "the emulator switches fibers on x86-64 and aarch64 alone; add minfer_emu_switch, minfer_emu_jump and first_context here"
#endif
extern "C" void minfer_emu_switch(void** save, void* load);
extern "C" [[noreturn]] void minfer_emu_jump(void* load);

namespace minfer_emu {

namespace {

constexpr size_t kStackBytes = 128 << 10, kStackGuard = 64 << 10;  // units are compiled so that no frame skips the guard
constexpr unsigned kNamedBarriers = 16;
constexpr uint64_t kMbarMark = 0x6d62617200000000ull;  // in the upper half of an initialised mbarrier; the lower is its number

struct Copy {
  void* to;
  const void* from;  // null: zeros
  unsigned bytes;
  void deliver() const {
    if (from) memcpy(to, from, bytes);
    else memset(to, 0, bytes);
  }
};

enum class Waits : uint8_t { no, block_barrier, named_barrier, collective, mbar, exited };

struct Fiber : ThreadView {
  void* context = nullptr;
  char* stack_top = nullptr;
  unsigned warp = 0, lane = 0;
  // What it waits for, if it does.
  Waits waits = Waits::no;
  const char* what = "";
  Site at = {"", 0};
  uint32_t members = 0;      // collective
  Apply apply = nullptr;     // collective
  void* operands = nullptr;  // collective
  unsigned number = 0;       // named barrier; mbarrier
  unsigned parity = 0;       // mbarrier
  // Its own asynchronous copies in the order they were started, and where each committed group ends.
  std::vector<Copy> copies;
  std::vector<size_t> groups;
};

struct Warp {
  uint32_t live = 0;       // lanes that have not exited
  uint32_t ready = 0;      // lanes that can run
  uint32_t gathering = 0;  // lanes that wait in a collective
};

struct Barrier {
  unsigned arrived = 0;
  unsigned expected = 0;  // named barriers
  Site at = {"", 0};      // of the first arrival
  uint32_t waiting[kMaxWarps] = {};
};

struct Mbar {
  uint64_t* address;
  unsigned count;    // arrivals of a phase
  unsigned pending;  // arrivals that this phase still lacks
  long long bytes;   // that this phase still lacks
  unsigned phase;
  bool fenced;            // fence_async() followed mbar_init
  unsigned initialiser;   // linear thread
  std::vector<Copy> copies;  // in flight
};

struct SharedArray {
  uintptr_t begin, end;
  const char* name;
};

bool same_place(const Site& a, const Site& b) { return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0); }

}  // namespace

class Multiprocessor : public BlockView {
 public:
  Multiprocessor();
  void run(LaunchState& launch);

  Fiber& self() { return *static_cast<Fiber*>(minfer_emu_current); }
  [[noreturn]] void fail(Status status, const Message& message);
  [[noreturn]] void fail_at(Status status, Site at, const Message& message);

  void check(uintptr_t address, unsigned bytes, unsigned align, Space space, const char* what, Site at);
  void* static_shared(SharedSite& site, Site at);
  void* dynamic_base() { return reinterpret_cast<void*>(dynamic_begin); }
  void block_barrier(Site at);
  void named_barrier(int id, int threads, Site at);
  void collective(Apply apply, uint32_t members, void* operands, const char* what, Site at, bool whole);
  void async_copy(void* shared, const void* global, bool valid, Site at);
  void async_wait(unsigned latest);
  void mbar_init(uint64_t* bar, unsigned count, Site at);
  void mbar_arrive(uint64_t* bar, unsigned bytes, const char* what, Site at);
  void mbar_wait(uint64_t* bar, unsigned parity, Site at);
  void bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar, Site at);
  void fence_async();
  void check_fenced(uint64_t tile, int rows, Site at);
  void finish_fiber();
  bool in_stacks(uintptr_t a) const { return a >= stacks_ && a < stacks_ + kMaxThreads * (kStackBytes + kStackGuard); }

  LaunchState* launch = nullptr;
  bool dependency_waited = false;
  const Fiber* volatile running = nullptr;  // for the watchdog
  void* main_context = nullptr;

 private:
  void start_block(uint64_t linear);
  void finish_block();
  void hand_on(Fiber& me);
  Fiber* next_ready();
  Fiber* next_or_stall();
  bool deliver_one();
  void make_ready(unsigned warp, uint32_t lanes);
  void release(Barrier& b);
  void complete(Warp& w, unsigned warp, uint32_t present, const Fiber& last);
  void end_phase(unsigned number);
  Mbar& mbar_of(uint64_t* bar, const char* what, Site at);
  [[noreturn]] void deadlock();
  void threads_text(Message& out, const std::vector<unsigned>& threads);
  void wait_text(Message& out, const Fiber& f);
  Fiber& fiber(unsigned warp, unsigned lane) { return fibers_[warp * kWarp + lane]; }

  std::vector<Fiber> fibers_;
  uintptr_t stacks_ = 0;
  Warp warps_[kMaxWarps];
  uint32_t ready_warps_ = 0;
  unsigned cursor_ = 0;      // the warp that ran last
  bool descending_ = false;  // order in which ready threads are taken
  unsigned threads_ = 0, live_ = 0;
  Barrier barriers_[kNamedBarriers];
  uint32_t barriers_used_ = 0;
  std::vector<Mbar> mbars_;
  unsigned mbar_count_ = 0;
  uint64_t block_linear_ = 0, block_serial_ = 0;

  // Shared memory: static arrays one after the other with canaries between, dynamic memory against a guard page.
  char *static_begin_ = nullptr, *static_limit_ = nullptr, *static_next_ = nullptr;
  size_t static_bytes_ = 0;
  std::vector<SharedArray> arrays_;
  struct Slot {
    uint64_t serial = 0;
    void* p = nullptr;
  };
  std::vector<Slot> slots_;
  uintptr_t dynamic_limit_ = 0;
  std::vector<Writer> writers_;
};

namespace {

constexpr size_t kSharedCanary = 64;
constexpr size_t kStaticArea = 256 << 10, kDynamicArea = 256 << 10;

Multiprocessor& machine() { return *static_cast<Multiprocessor*>(minfer_emu_current->block); }

// The body of every fiber.
void fiber_main() {
  LaunchState& launch = *machine().launch;
  launch.entry->kernel.invoke(launch.args.data());
  machine().finish_fiber();
}

char* map_between_guards(size_t bytes) {
  const size_t guard = 1 << 20;  // address space, no memory: what indexes twice as far still lands in it
  void* p = mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + guard, bytes, PROT_READ | PROT_WRITE) != 0) {
    fprintf(stderr, "emulator: no memory for shared memory\n");
    _exit(1);
  }
  return static_cast<char*>(p) + guard;
}

}  // namespace

Multiprocessor::Multiprocessor() : fibers_(kMaxThreads), slots_(64), writers_(kDynamicArea / 16) {
  const size_t each = kStackBytes + kStackGuard;
  void* p = mmap(nullptr, kMaxThreads * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    fprintf(stderr, "emulator: no memory for stacks\n");
    _exit(1);
  }
  stacks_ = reinterpret_cast<uintptr_t>(p);
  for (unsigned i = 0; i < kMaxThreads; i++) {
    mprotect(reinterpret_cast<void*>(stacks_ + i * each), kStackGuard, PROT_NONE);
    Fiber& f = fibers_[i];
    // Stack tops at different offsets in their pages, or all fibers would compete for the same few lines of the cache.
    f.stack_top = reinterpret_cast<char*>(stacks_ + (i + 1) * each - i * 320 % 4096 / 64 * 64);
    f.linear = i;
    f.warp = i / kWarp;
    f.lane = i % kWarp;
    f.block = this;
  }
  static_begin_ = map_between_guards(kStaticArea);
  static_limit_ = static_begin_ + kStaticArea;
  dynamic_limit_ = reinterpret_cast<uintptr_t>(map_between_guards(kDynamicArea)) + kDynamicArea;
  writers = writers_.data();
}

// ---- The life of a block

void Multiprocessor::run(LaunchState& l) {
  launch = &l;
  dim = l.dim;
  grid = l.grid;
  threads_ = dim.x * dim.y * dim.z;
  for (unsigned i = 0; i < threads_; i++) fibers_[i].index = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
  dynamic_begin = dynamic_limit_ - (l.dynamic_bytes + 15) / 16 * 16;
  dynamic_bytes = l.dynamic_bytes;
  const uint64_t share = std::min<uint64_t>(16, std::max<uint64_t>(1, l.blocks / 64));
  for (;;) {
    const uint64_t first = l.next.fetch_add(share), end = std::min(first + share, l.blocks);
    if (first >= l.blocks) break;
    for (uint64_t b = first; b < end; b++) {
      if (l.failed_block.load(std::memory_order_relaxed) < b) return;
      start_block(b);
      Fiber* f = next_ready();
      running = f;
      minfer_emu_current = f;
      minfer_emu_switch(&main_context, f->context);  // comes back when the block has ended or failed
      running = nullptr;
      minfer_emu_current = nullptr;
    }
  }
}

void Multiprocessor::start_block(uint64_t linear) {
  block_linear_ = linear;
  block_serial_++;
  index = {(unsigned)(linear % grid.x), (unsigned)(linear / grid.x % grid.y), (unsigned)(linear / grid.x / grid.y)};
  memset(ranges, 0, sizeof ranges);
  static_next_ = static_begin_;
  static_bytes_ = 0;
  arrays_.clear();
  if (launch->dynamic_bytes) {
    char* d = reinterpret_cast<char*>(dynamic_begin);
    fill_canary(d - kSharedCanary, kSharedCanary);
    poison(d, launch->dynamic_bytes);
    memset(writers, 0, (launch->dynamic_bytes + 15) / 16 * sizeof *writers);
    fill_canary(d + launch->dynamic_bytes, dynamic_limit_ - dynamic_begin - launch->dynamic_bytes);
  }
  for (; barriers_used_; barriers_used_ &= barriers_used_ - 1) barriers_[__builtin_ctz(barriers_used_)] = Barrier();
  for (unsigned i = 0; i < mbar_count_; i++) mbars_[i].copies.clear();
  mbar_count_ = 0;
  dependency_waited = false;

  live_ = threads_;
  descending_ = launch->settings.strict && ((linear + launch->serial) & 1);
  ready_warps_ = 0;
  const unsigned warps = (threads_ + kWarp - 1) / kWarp;
  for (unsigned w = 0; w < warps; w++) {
    const unsigned lanes = std::min(kWarp, threads_ - w * kWarp);
    const uint32_t mask = lanes == kWarp ? ~0u : (1u << lanes) - 1;
    warps_[w] = Warp{mask, mask, 0};
    ready_warps_ |= 1u << w;
  }
  cursor_ = descending_ ? warps - 1 : 0;
  for (unsigned i = 0; i < threads_; i++) {
    Fiber& f = fibers_[i];
    f.context = first_context(f.stack_top, fiber_main);
    f.waits = Waits::no;
    f.fences = 0;
    if (!f.copies.empty()) f.copies.clear();
    if (!f.groups.empty()) f.groups.clear();
  }
}

// Runs on the last fiber's stack.
void Multiprocessor::finish_block() {
  for (const SharedArray& a : arrays_) {
    const char* end = reinterpret_cast<const char*>(a.end);
    if (canary_damage(end, kSharedCanary)) fail(Status::fault, Message().add("a thread wrote past the end of shared array %s (%zu bytes)", a.name, (size_t)(a.end - a.begin)));
  }
  if (launch->dynamic_bytes) {
    const char* d = reinterpret_cast<const char*>(dynamic_begin);
    if (canary_damage(d - kSharedCanary, kSharedCanary)) fail(Status::fault, Message().add("a thread wrote before the start of dynamic shared memory"));
    if (canary_damage(d + launch->dynamic_bytes, dynamic_limit_ - dynamic_begin - launch->dynamic_bytes))
      fail(Status::fault, Message().add("a thread wrote past the end of dynamic shared memory (%u bytes)", launch->dynamic_bytes));
  }
  for (unsigned i = 0; i < mbar_count_; i++) {
    if (!mbars_[i].copies.empty())
      fail(Status::sync, Message().add("the block ended with %zu bulk copies in flight that nobody waited for", mbars_[i].copies.size()));
  }
  if (launch->settings.strict && launch->dependent && !dependency_waited)
    fail(Status::sync, Message().add("launched as dependent, but no thread called dependency_wait()"));
}

void Multiprocessor::finish_fiber() {
  Fiber& f = self();
  f.waits = Waits::exited;
  Warp& w = warps_[f.warp];
  w.live &= ~(1u << f.lane);
  live_--;
  if (live_ == 0) {
    finish_block();
    minfer_emu_jump(main_context);
  }
  // Those who waited for this thread among others wait no longer.
  if (barriers_[0].arrived && barriers_[0].arrived == live_) release(barriers_[0]);
  for (unsigned lane = 0; w.gathering && lane < kWarp; lane++) {
    if (!(w.gathering >> lane & 1u)) continue;
    const Fiber& other = fiber(f.warp, lane);
    const uint32_t present = other.members & w.live;
    if ((w.gathering & present) != present) continue;
    complete(w, f.warp, present, other);
    make_ready(f.warp, present);
  }
  Fiber* next = next_or_stall();
  running = next;
  minfer_emu_current = next;
  minfer_emu_jump(next->context);
}

// ---- Scheduling

void Multiprocessor::make_ready(unsigned warp, uint32_t lanes) {
  if (!lanes) return;
  warps_[warp].ready |= lanes;
  ready_warps_ |= 1u << warp;
}

// Takes a ready thread: of the warp that ran last if it has one, else of the next warp.
Fiber* Multiprocessor::next_ready() {
  if (!ready_warps_) return nullptr;
  unsigned w, lane;
  if (descending_) {
    const uint32_t below = ready_warps_ & (~0u >> (31 - cursor_));
    w = 31 - __builtin_clz(below ? below : ready_warps_);
    lane = 31 - __builtin_clz(warps_[w].ready);
  } else {
    const uint32_t above = ready_warps_ & (~0u << cursor_);
    w = __builtin_ctz(above ? above : ready_warps_);
    lane = __builtin_ctz(warps_[w].ready);
  }
  cursor_ = w;
  warps_[w].ready &= ~(1u << lane);
  if (!warps_[w].ready) ready_warps_ &= ~(1u << w);
  return &fiber(w, lane);
}

Fiber* Multiprocessor::next_or_stall() {
  for (;;) {
    if (Fiber* f = next_ready()) return f;
    if (!deliver_one()) deadlock();
  }
}

// The calling fiber waits: others run until somebody makes it ready and its turn comes.
void Multiprocessor::hand_on(Fiber& me) {
  Fiber* next = next_or_stall();
  if (next != &me) {
    running = next;
    minfer_emu_current = next;
    minfer_emu_switch(&me.context, next->context);
  }
  me.waits = Waits::no;
}

// ---- Failures

void Multiprocessor::fail(Status status, const Message& message) {
  Message m;
  m.add("block (%u,%u,%u): %s", index.x, index.y, index.z, message.text);
  launch->fail(block_linear_, status, m.text);
  running = nullptr;
  minfer_emu_current = nullptr;
  minfer_emu_jump(main_context);
}

void Multiprocessor::fail_at(Status status, Site at, const Message& message) {
  const Fiber& f = self();
  fail(status, Message().add("thread (%u,%u,%u), %s:%d: %s", f.index.x, f.index.y, f.index.z, at.file, at.line, message.text));
}

void LaunchState::fail(uint64_t block, Status status, const char* text) {
  std::lock_guard<std::mutex> lock(mutex);
  if (block >= failed_block.load()) return;
  failed_block = block;
  failure.status = status;
  failure.text = text;
}

void Multiprocessor::threads_text(Message& out, const std::vector<unsigned>& threads) {
  out.add(threads.size() == 1 ? "thread " : "threads ");
  for (size_t i = 0; i < threads.size();) {
    size_t j = i;
    while (j + 1 < threads.size() && threads[j + 1] == threads[j] + 1) j++;
    out.add(i ? ", %u" : "%u", threads[i]);
    if (j > i) out.add("-%u", threads[j]);
    i = j + 1;
    if (i < threads.size() && out.length > 1400) {
      out.add(", ...");
      break;
    }
  }
}

void Multiprocessor::wait_text(Message& out, const Fiber& f) {
  switch (f.waits) {
    case Waits::exited: out.add("exited"); return;
    case Waits::no: out.add("running"); return;
    case Waits::named_barrier: out.add("at named_barrier %u (%u of %u have come)", f.number, barriers_[f.number].arrived, barriers_[f.number].expected); break;
    case Waits::mbar: {
      const Mbar& b = mbars_[f.number];
      out.add("in mbar_wait for parity %u of mbarrier %u (phase %u lacks %u of %u arrivals and %lld bytes)", f.parity, f.number, b.phase, b.pending, b.count, b.bytes);
      break;
    }
    case Waits::collective:
      out.add("in %s", f.what);
      if (f.members != ~0u) out.add(" with members 0x%08x", f.members);
      break;
    case Waits::block_barrier: out.add("at block_barrier"); break;
  }
  out.add(", %s:%d", f.at.file, f.at.line);
}

void Multiprocessor::deadlock() {
  // Threads that wait alike are named together.
  Message m;
  m.add("deadlock: ");
  std::vector<bool> told(threads_);
  bool first = true;
  for (unsigned i = 0; i < threads_; i++) {
    if (told[i]) continue;
    Message mine;
    wait_text(mine, fibers_[i]);
    std::vector<unsigned> alike;
    for (unsigned k = i; k < threads_; k++) {
      Message other;
      if (!told[k]) wait_text(other, fibers_[k]);
      if (told[k] || strcmp(mine.text, other.text) != 0) continue;
      told[k] = true;
      alike.push_back(k);
    }
    if (!first) m.add("; ");
    first = false;
    threads_text(m, alike);
    m.add(": %s", mine.text);
  }
  fail(Status::sync, m);
}

// ---- Memory

void Multiprocessor::check(uintptr_t a, unsigned bytes, unsigned align, Space space, const char* what, Site at) {
  Range found = {0, 0, Space::none};
  for (const SharedArray& s : arrays_)
    if (a >= s.begin && a + bytes <= s.end) found = {s.begin, s.end, Space::shared};
  const uintptr_t dynamic_end = dynamic_begin + launch->dynamic_bytes;
  if (a >= dynamic_begin && a + bytes <= dynamic_end) found = {dynamic_begin, dynamic_end, Space::shared};
  if (found.space == Space::none) {
    if (const Buffer* b = launch->memory->holding(a, bytes)) found = {b->begin, b->end, Space::global};
  }
  Dl_info info;
  if (found.space == Space::none && !in_stacks(a) && dladdr(reinterpret_cast<void*>(a), &info) && info.dli_fname) {
    found = {a, a + bytes, Space::global};  // a MINFER_TABLE
  }
  if (found.space == Space::none) {
    Message m;
    m.add("%s touches ", what);
    const bool shared = (a >= reinterpret_cast<uintptr_t>(static_begin_) && a < reinterpret_cast<uintptr_t>(static_limit_)) ||
                        (a >= dynamic_limit_ - kDynamicArea && a < dynamic_limit_ + 4096);
    if (in_stacks(a)) {
      m.add("a local variable; it takes %s memory", space == Space::shared ? "shared" : "global");
    } else if (shared) {
      m.add("shared memory outside of any array");
      for (const SharedArray& s : arrays_)
        if (a >= s.begin && a < s.end + kSharedCanary) m.add(": bytes %zu to %zu of %s, which has %zu", (size_t)(a - s.begin), (size_t)(a - s.begin) + bytes, s.name, (size_t)(s.end - s.begin));
    } else {
      // The first byte that is out, not the first that is touched.
      const Buffer* b = launch->memory->nearest(a);
      uintptr_t bad = a;
      if (b && a >= b->begin && a < b->end && a + bytes > b->end) bad = a + bytes - 1;
      launch->describe(bad, m);
    }
    fail_at(Status::fault, at, m);
  }
  if (space != Space::none && found.space != space) {
    fail_at(Status::fault, at, Message().add("%s is for %s memory, but the address is in %s memory", what, space == Space::shared ? "shared" : "global", space == Space::shared ? "global" : "shared"));
  }
  if (a % align) {
    Message m;
    m.add("misaligned %s: the address must be a multiple of %u; it is ", what, align);
    if (found.space == Space::global) launch->describe(a, m);
    else m.add("byte %zu of a shared array", (size_t)(a - found.begin));
    fail_at(Status::fault, at, m);
  }
  Range& r = ranges[slot(a)];
  r = found;
  r.space = space;
}

void* Multiprocessor::static_shared(SharedSite& site, Site at) {
  static std::atomic<unsigned> slots{0};
  unsigned slot = __atomic_load_n(&site.slot, __ATOMIC_RELAXED);
  if (!slot) {
    unsigned none = 0, mine = ++slots;
    __atomic_compare_exchange_n(&site.slot, &none, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    slot = __atomic_load_n(&site.slot, __ATOMIC_RELAXED);
  }
  if (slot >= slots_.size()) slots_.resize(slot * 2);
  Slot& s = slots_[slot];
  if (s.serial == block_serial_) return s.p;
  static_bytes_ += (site.bytes + 15) / 16 * 16;
  if (static_bytes_ > kStaticShared || static_bytes_ + launch->dynamic_bytes > launch->settings.shared_limit) {
    fail_at(Status::limit, at, Message().add("with %s the block has %zu bytes of static and %u of dynamic shared memory; allowed are %zu static, %zu together", site.name,
                                             static_bytes_, launch->dynamic_bytes, kStaticShared, launch->settings.shared_limit));
  }
  s.serial = block_serial_;
  s.p = static_next_;
  if (static_next_ + site.bytes + kSharedCanary + 16 > static_limit_) fail_at(Status::limit, at, Message().add("too many shared arrays"));
  poison(static_next_, site.bytes);
  fill_canary(static_next_ + site.bytes, kSharedCanary + 16);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(static_next_);
  arrays_.push_back({begin, begin + site.bytes, site.name});
  static_next_ += (site.bytes + kSharedCanary + 15) / 16 * 16;
  return s.p;
}

// ---- Barriers and collectives

void Multiprocessor::release(Barrier& b) {
  const unsigned warps = (threads_ + kWarp - 1) / kWarp;
  for (unsigned w = 0; w < warps; w++) {
    make_ready(w, b.waiting[w]);
    b.waiting[w] = 0;
  }
  b.arrived = 0;
}

void Multiprocessor::block_barrier(Site at) {
  Fiber& f = self();
  Barrier& b = barriers_[0];
  barriers_used_ |= 1;
  if (b.arrived == 0) b.at = at;
  else if (!same_place(b.at, at)) {
    fail_at(Status::sync, at, Message().add("divergent block_barrier: this thread is here while others wait at that of %s:%d", b.at.file, b.at.line));
  }
  if (++b.arrived == live_) {
    release(b);
    return;
  }
  b.waiting[f.warp] |= 1u << f.lane;
  f.waits = Waits::block_barrier;
  f.at = at;
  hand_on(f);
}

void Multiprocessor::named_barrier(int id, int threads, Site at) {
  Fiber& f = self();
  if (id < 1 || id >= (int)kNamedBarriers) fail_at(Status::sync, at, Message().add("named_barrier %d: allowed are 1 to %u", id, kNamedBarriers - 1));
  if (threads < 1 || threads % (int)kWarp || threads > (int)kMaxThreads) fail_at(Status::sync, at, Message().add("named_barrier %d of %d threads: a multiple of 32 is needed", id, threads));
  Barrier& b = barriers_[id];
  barriers_used_ |= 1u << id;
  if (b.arrived == 0) b.expected = (unsigned)threads;
  else if (b.expected != (unsigned)threads) fail_at(Status::sync, at, Message().add("named_barrier %d: this thread says %d threads, others said %u", id, threads, b.expected));
  if (++b.arrived == b.expected) {
    release(b);
    return;
  }
  b.waiting[f.warp] |= 1u << f.lane;
  f.waits = Waits::named_barrier;
  f.number = (unsigned)id;
  f.at = at;
  hand_on(f);
}

// All of `present` have come: the operation is done for all of them.
void Multiprocessor::complete(Warp& w, unsigned warp, uint32_t present, const Fiber& last) {
  void* lanes[kWarp];
  for (unsigned i = 0; i < kWarp; i++) {
    lanes[i] = nullptr;
    if (!(present >> i & 1u)) continue;
    const Fiber& f = fiber(warp, i);
    if (f.apply != last.apply || f.members != last.members || f.what != last.what) {
      Message m;
      m.add("divergent warp collective: ");
      wait_text(m, f);
      m.add(" is lane %u while lane %u is ", f.lane, last.lane);
      wait_text(m, last);
      fail(Status::sync, m);
    }
    lanes[i] = f.operands;
  }
  w.gathering &= ~present;
  last.apply(lanes, present);
}

void Multiprocessor::collective(Apply apply, uint32_t members, void* operands, const char* what, Site at, bool whole) {
  Fiber& f = self();
  Warp& w = warps_[f.warp];
  const uint32_t me = 1u << f.lane;
  if (!(members & me)) fail_at(Status::sync, at, Message().add("lane %u calls %s with members 0x%08x, which leave it out", f.lane, what, members));
  if (whole && w.live != ~0u) fail_at(Status::sync, at, Message().add("%s needs a whole warp; the live lanes are 0x%08x", what, w.live));
  f.waits = Waits::collective;
  f.what = what;
  f.at = at;
  f.members = members;
  f.apply = apply;
  f.operands = operands;
  w.gathering |= me;
  const uint32_t present = members & w.live;
  if ((w.gathering & present) == present) {
    complete(w, f.warp, present, f);
    make_ready(f.warp, present & ~me);
    f.waits = Waits::no;
    return;
  }
  hand_on(f);
}

// ---- Asynchronous copies

void Multiprocessor::async_copy(void* shared, const void* global, bool valid, Site at) {
  check(reinterpret_cast<uintptr_t>(shared), 16, 16, Space::shared, "async_copy16 to", at);
  if (valid) check(reinterpret_cast<uintptr_t>(global), 16, 16, Space::global, "async_copy16 from", at);
  const Copy c = {shared, valid ? global : nullptr, 16};
  if (!launch->settings.strict) {
    c.deliver();
    return;
  }
  poison(shared, 16);
  self().copies.push_back(c);
}

void Multiprocessor::async_wait(unsigned latest) {
  Fiber& f = self();
  if (f.groups.size() <= latest) return;
  const size_t done = f.groups.size() - latest, copies = f.groups[done - 1];
  for (size_t i = 0; i < copies; i++) {
    f.copies[i].deliver();
    note_writer(f.copies[i].to);
  }
  f.copies.erase(f.copies.begin(), f.copies.begin() + (long)copies);
  f.groups.erase(f.groups.begin(), f.groups.begin() + (long)done);
  for (size_t& g : f.groups) g -= copies;
}

// ---- mbarriers

Mbar& Multiprocessor::mbar_of(uint64_t* bar, const char* what, Site at) {
  check(reinterpret_cast<uintptr_t>(bar), 8, 8, Space::shared, what, at);
  const uint64_t number = *bar ^ kMbarMark;
  if (number >= mbar_count_ || mbars_[number].address != bar) fail_at(Status::sync, at, Message().add("%s: the mbarrier was not initialised, or was overwritten", what));
  return mbars_[number];
}

void Multiprocessor::mbar_init(uint64_t* bar, unsigned count, Site at) {
  check(reinterpret_cast<uintptr_t>(bar), 8, 8, Space::shared, "mbar_init", at);
  if (count < 1 || count >= 1u << 20) fail_at(Status::sync, at, Message().add("mbar_init with a count of %u: allowed are 1 to 1048575", count));
  unsigned number = 0;
  while (number < mbar_count_ && mbars_[number].address != bar) number++;
  if (number == mbar_count_) {
    if (mbar_count_ == mbars_.size()) mbars_.emplace_back();
    mbar_count_++;
  } else if (!mbars_[number].copies.empty()) {
    fail_at(Status::sync, at, Message().add("mbar_init of an mbarrier with copies in flight"));
  }
  Mbar& b = mbars_[number];
  b.address = bar;
  b.count = b.pending = count;
  b.bytes = 0;
  b.phase = 0;
  b.fenced = false;
  b.initialiser = self().linear;
  b.copies.clear();
  *bar = kMbarMark | number;
}

void Multiprocessor::fence_async() {
  self().fences++;
  for (unsigned i = 0; i < mbar_count_; i++)
    if (mbars_[i].initialiser == self().linear) mbars_[i].fenced = true;
}

void Multiprocessor::check_fenced(uint64_t tile, int rows, Site at) {
  if (!launch->settings.strict) return;
  for (int row = 0; row < rows; row++) {
    for (int half = 0; half < 2; half++) {
      const uintptr_t byte = wgmma_chunk(tile, row, half) - dynamic_begin;
      if (byte >= dynamic_bytes) continue;  // a static array
      const Writer& w = writers[byte / 16];
      if (w.thread == 0 || fibers_[w.thread - 1].fences != w.fences) continue;
      fail_at(Status::sync, at, Message().add("wgmma_bf16 reads bytes %zu to %zu of dynamic shared memory, which thread %d wrote, and no fence_async() followed", (size_t)byte, (size_t)byte + 16, w.thread - 1));
    }
  }
}

// If the phase lacks nothing, the next one begins and whoever waited for this one may run.
void Multiprocessor::end_phase(unsigned number) {
  Mbar& b = mbars_[number];
  if (b.pending || b.bytes) return;
  b.phase++;
  b.pending = b.count;
  for (unsigned i = 0; i < threads_; i++) {
    Fiber& f = fibers_[i];
    if (f.waits == Waits::mbar && f.number == number && (b.phase & 1) != f.parity) {
      f.waits = Waits::no;
      make_ready(f.warp, 1u << f.lane);
    }
  }
}

void Multiprocessor::mbar_arrive(uint64_t* bar, unsigned bytes, const char* what, Site at) {
  Mbar& b = mbar_of(bar, what, at);
  if (b.pending == 0) fail_at(Status::sync, at, Message().add("%s: more than %u arrivals in one phase", what, b.count));
  b.bytes += bytes;
  if (b.bytes >= 1 << 20) fail_at(Status::sync, at, Message().add("%s: a phase of %lld bytes; allowed are 1048575", what, b.bytes));
  b.pending--;
  end_phase((unsigned)(&b - mbars_.data()));
}

void Multiprocessor::mbar_wait(uint64_t* bar, unsigned parity, Site at) {
  Mbar& b = mbar_of(bar, "mbar_wait", at);
  if (parity > 1) fail_at(Status::sync, at, Message().add("mbar_wait for parity %u: 0 or 1", parity));
  if ((b.phase & 1) != parity) return;
  Fiber& f = self();
  f.waits = Waits::mbar;
  f.number = (unsigned)(&b - mbars_.data());
  f.parity = parity;
  f.at = at;
  hand_on(f);
}

void Multiprocessor::bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar, Site at) {
  Mbar& b = mbar_of(bar, "bulk_copy", at);
  if (bytes == 0 || bytes % 16) fail_at(Status::fault, at, Message().add("bulk_copy of %u bytes: a positive multiple of 16 is needed", bytes));
  check(reinterpret_cast<uintptr_t>(shared), bytes, 16, Space::shared, "bulk_copy to", at);
  check(reinterpret_cast<uintptr_t>(global), bytes, 16, Space::global, "bulk_copy from", at);
  if (launch->settings.strict && !b.fenced) fail_at(Status::sync, at, Message().add("bulk_copy on an mbarrier whose mbar_init no fence_async() followed"));
  const Copy c = {shared, global, bytes};
  if (!launch->settings.strict) {
    c.deliver();
    b.bytes -= bytes;
    end_phase((unsigned)(&b - mbars_.data()));
    return;
  }
  // Which of two copies in flight comes last is the machine's to choose, so that no order of deliveries here would show the fault.
  for (unsigned i = 0; i < mbar_count_; i++) {
    for (const Copy& other : mbars_[i].copies) {
      const char *to = static_cast<const char*>(shared), *its = static_cast<const char*>(other.to);
      if (to < its + other.bytes && its < to + bytes) fail_at(Status::sync, at, Message().add("bulk_copy to shared memory that another copy, still in flight, writes"));
    }
  }
  poison(shared, bytes);
  const uintptr_t byte = reinterpret_cast<uintptr_t>(shared) - dynamic_begin;
  if (byte < dynamic_bytes) memset(writers + byte / 16, 0, bytes / 16 * sizeof *writers);
  b.copies.push_back(c);
}

// Nobody can run. Delivers the copies of one mbarrier that some thread waits for and that lacks nothing else, the one initialised last
// first; false if there is none.
bool Multiprocessor::deliver_one() {
  for (unsigned number = mbar_count_; number-- > 0;) {
    Mbar& b = mbars_[number];
    if (b.copies.empty() || b.pending) continue;
    bool wanted = false;
    for (unsigned i = 0; i < threads_ && !wanted; i++) wanted = fibers_[i].waits == Waits::mbar && fibers_[i].number == number;
    if (!wanted) continue;
    for (const Copy& c : b.copies) {
      c.deliver();
      b.bytes -= c.bytes;
    }
    b.copies.clear();
    end_phase(number);
    return true;
  }
  return false;
}

// ---- The services of minfer_emu.hpp

void check_slow(const void* p, unsigned bytes, unsigned align, Space space, const char* what, Site at) {
  machine().check(reinterpret_cast<uintptr_t>(p), bytes, align, space, what, at);
}
void* static_shared(SharedSite& site, Site at) { return machine().static_shared(site, at); }
void* dynamic_shared_base() { return machine().dynamic_base(); }
void block_barrier(Site at) { machine().block_barrier(at); }
void named_barrier(int id, int threads, Site at) { machine().named_barrier(id, threads, at); }
void collective(Apply apply, uint32_t members, void* operands, const char* what, Site at, bool whole) {
  machine().collective(apply, members, operands, what, at, whole);
}
void async_copy(void* shared, const void* global, bool valid, Site at) { machine().async_copy(shared, global, valid, at); }
void async_commit() {
  Fiber& f = machine().self();
  f.groups.push_back(f.copies.size());
}
void async_wait(unsigned latest) { machine().async_wait(latest); }
void mbar_init(uint64_t* bar, unsigned count, Site at) { machine().mbar_init(bar, count, at); }
void mbar_arrive(uint64_t* bar, unsigned bytes, const char* what, Site at) { machine().mbar_arrive(bar, bytes, what, at); }
void mbar_wait(uint64_t* bar, unsigned parity, Site at) { machine().mbar_wait(bar, parity, at); }
void bulk_copy(void* shared, const void* global, unsigned bytes, uint64_t* bar, Site at) { machine().bulk_copy(shared, global, bytes, bar, at); }
void fence_async() { machine().fence_async(); }
void check_fenced(uint64_t tile, int rows, Site at) { machine().check_fenced(tile, rows, at); }
void refuse(const char* why, Site at) { machine().fail_at(Status::sync, at, Message().add("%s", why)); }
void dependency_wait() { machine().dependency_waited = true; }
void cover(long long row, long long unit, long long token) {
  if (Witness* w = machine().launch->witness) w->count(row, unit, token);
}

// ---- Faults

namespace {

// Whether the interrupted code was reading or writing, if the platform says so.
enum class Access { unknown, read, write };
Access access_of(int signal, void* context) {
  (void)signal;
  (void)context;
#if defined(__linux__) && defined(__x86_64__)
  if (signal == SIGSEGV || signal == SIGBUS) return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2 ? Access::write : Access::read;
#elif defined(__linux__) && defined(__aarch64__)
  // A list of records of (magic, size, ...); the one with the fault's syndrome has the write bit at 6.
  const unsigned char* record = static_cast<ucontext_t*>(context)->uc_mcontext.__reserved;
  for (;;) {
    uint32_t head[2];
    memcpy(head, record, sizeof head);
    if (head[0] == 0 || head[1] == 0) break;
    if (head[0] == 0x45535201) {
      uint64_t syndrome;
      memcpy(&syndrome, record + 8, sizeof syndrome);
      return syndrome & 1u << 6 ? Access::write : Access::read;
    }
    record += head[1];
  }
#endif
  return Access::unknown;
}

// Makes the interrupted code go on in minfer_emu_jump(sp).
bool redirect(void* context, void* sp) {
  ucontext_t* u = static_cast<ucontext_t*>(context);
  (void)u;
#if defined(__linux__) && defined(__x86_64__)
  u->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)&minfer_emu_jump;
  u->uc_mcontext.gregs[REG_RDI] = (greg_t)(uintptr_t)sp;
  return true;
#elif defined(__linux__) && defined(__aarch64__)
  u->uc_mcontext.pc = (uintptr_t)&minfer_emu_jump;
  u->uc_mcontext.regs[0] = (uintptr_t)sp;
  return true;
#elif defined(__APPLE__) && defined(__x86_64__)
  u->uc_mcontext->__ss.__rip = (uintptr_t)&minfer_emu_jump;
  u->uc_mcontext->__ss.__rdi = (uintptr_t)sp;
  return true;
#elif defined(__APPLE__) && defined(__aarch64__)
  u->uc_mcontext->__ss.__pc = (uintptr_t)&minfer_emu_jump;
  u->uc_mcontext->__ss.__x[0] = (uintptr_t)sp;
  return true;
#else
  (void)sp;
  return false;
#endif
}

// A kernel's thread did what the processor refuses. Its block has failed: the system thread goes on where it started the block. What the
// fiber held is left as it is; kernels own nothing.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (!minfer_emu_current) {  // a fault of the emulator itself
    ::signal(signal, SIG_DFL);
    return;
  }
  Multiprocessor& m = machine();
  const Fiber& f = m.self();
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  Message what;
  if (signal == SIGFPE) what.add("integer division by zero");
  else if (signal == SIGILL || signal == SIGTRAP) what.add("trap");
  else if (m.in_stacks(address)) what.add("its local variables do not fit on the emulator's stack of %zu bytes", kStackBytes);
  else {
    const Access access = access_of(signal, context);
    what.add(access == Access::write ? "writes " : access == Access::read ? "reads " : "touches ");
#ifdef SI_KERNEL
    if (signal == SIGSEGV && info->si_code == SI_KERNEL) what.add("an address that no buffer can have");  // the processor does not even say which
    else
#endif
      m.launch->describe(address, what);
  }
  Message text;
  text.add("block (%u,%u,%u): thread (%u,%u,%u): %s", m.index.x, m.index.y, m.index.z, f.index.x, f.index.y, f.index.z, what.text);
  m.launch->fail(((uint64_t)m.index.z * m.grid.y + m.index.y) * m.grid.x + m.index.x, Status::fault, text.text);
  m.running = nullptr;
  minfer_emu_current = nullptr;
  if (!redirect(context, m.main_context)) {
    fprintf(stderr, "%s\n", text.text);
    _exit(1);
  }
}

}  // namespace

void install_fault_handler() {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;  // the signal itself is unblocked again by returning from the handler
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigaction(s, &action, nullptr);
}

void install_signal_stack() {
  const size_t bytes = 64 << 10;
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = malloc(bytes);
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
}

Multiprocessor* make_multiprocessor() { return new Multiprocessor(); }
void run_blocks(Multiprocessor& m, LaunchState& launch) { m.run(launch); }
bool now_running(const Multiprocessor& m, uint3& block, uint3& thread) {
  const Fiber* f = m.running;
  if (!f) return false;
  block = m.index;
  thread = f->index;
  return true;
}

}  // namespace minfer_emu
