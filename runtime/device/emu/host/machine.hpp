// machine.hpp: what the parts of the emulator program share. memory.cpp keeps the buffers, block.cpp runs the blocks, serve.cpp obeys
// the host.
#pragma once
#include "minfer_emu.hpp"

#include <stdarg.h>
#include <stdio.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace minfer_emu {

// Why a request failed; the host maps these to its errors.
enum class Status : uint32_t { ok, failed, unknown_kernel, unknown_symbol, limit, argument, memory, fault, sync, timeout };

// A message of bounded length: it allocates nothing, so that a fiber, which is simply left when its block fails, and a signal handler can
// write one.
struct Message {
  char text[2000];
  size_t length = 0;

  Message() { text[0] = 0; }
  __attribute__((format(printf, 2, 3))) Message& add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text + length, sizeof text - length, format, args);
    va_end(args);
    if (n > 0) length = length + (size_t)n < sizeof text ? length + (size_t)n : sizeof text - 1;
    return *this;
  }
};

struct Failure {
  Status status = Status::ok;
  std::string text;
};

// ---- memory.cpp

// A buffer lies at the end of its pages, aligned to 16 bytes:
//
//   guard | canary ... | begin  content  end | slack: canary | guard
//
// so that the first byte past it (after the slack of at most 15) faults, and a stray write before it or into the slack is found after
// the launch. A freed buffer stays as a guard until its address is needed again.
struct Buffer {
  uintptr_t begin, end;    // content
  uintptr_t pages, limit;  // between the guards
  uintptr_t map;           // the mapping, guards included
  size_t map_bytes;
  bool freed;
  size_t bytes() const { return end - begin; }
};

class Memory {
 public:
  explicit Memory(uint64_t limit) : limit_(limit) {}
  Status allocate(uint64_t bytes, uintptr_t& begin, Message& why);
  Status release(uintptr_t begin, Message& why);
  // The live buffer that holds [address, address + bytes), or null.
  const Buffer* holding(uintptr_t address, uint64_t bytes) const;
  // The buffer, live or freed, whose mapping the address is in, else the nearest; null if there is none at all.
  const Buffer* nearest(uintptr_t address) const;
  // Looks at all canaries, mends them, and tells of the first that was overwritten: nullptr if none, else the buffer and the address.
  const Buffer* damaged(uintptr_t& address);
  uint64_t limit() const { return limit_; }

 private:
  std::map<uintptr_t, Buffer> buffers_;  // by the start of the mapping
  std::vector<uintptr_t> freed_;         // mappings of freed buffers, oldest first
  uint64_t used_ = 0, limit_;
};

void poison(void* p, size_t bytes);
void fill_canary(void* p, size_t bytes);
const unsigned char* canary_damage(const void* p, size_t bytes);  // the first byte that differs, or null

// ---- block.cpp

constexpr unsigned kMaxThreads = 1024, kWarp = 32, kMaxWarps = kMaxThreads / kWarp;
constexpr size_t kStaticShared = 48 << 10;  // bytes of static shared memory that a kernel may have

struct Settings {
  bool strict = true;            // late copies, poison, both thread orders
  size_t shared_limit = 227 << 10;  // static and dynamic bytes of a block
};

struct KernelEntry {
  Kernel kernel;
  std::string unit;
  std::vector<std::string> parameters;  // names
};

struct Witness {
  long long rows = 0, units = 0, tokens = 0;
  std::vector<uint16_t> counts;  // [token][row][unit], saturating
  std::mutex mutex;              // of the following
  uint64_t outside = 0;
  std::vector<long long> first_outside;  // row, unit, token of at most 16
  void count(long long row, long long unit, long long token);
};

struct LaunchState {
  const KernelEntry* entry = nullptr;
  uint3 grid = {}, dim = {};
  uint32_t dynamic_bytes = 0;
  bool dependent = false;
  std::vector<uint64_t> args;
  uint64_t serial = 0;
  uint64_t blocks = 0;
  const Memory* memory = nullptr;
  Witness* witness = nullptr;
  Settings settings;

  std::atomic<uint64_t> next{0};                 // the first block that nobody has claimed
  std::atomic<uint64_t> failed_block{UINT64_MAX};  // the lowest that failed
  std::mutex mutex;
  Failure failure;  // of failed_block
  void fail(uint64_t block, Status status, const char* text);
  // "buffer w (argument 0, 4096 bytes)"
  void name_buffer(const Buffer& buffer, Message& out) const;
  // "byte 4099 of buffer w (...)", "4 bytes past the end of ..."
  void describe(uintptr_t address, Message& out) const;
};

class Multiprocessor;
// A multiprocessor runs blocks one after the other on the thread that calls run.
Multiprocessor* make_multiprocessor();
// Runs blocks of the launch until none is left, or one below has failed.
void run_blocks(Multiprocessor& m, LaunchState& launch);
// Which block and thread are being run, for the message of a launch that does not end.
bool now_running(const Multiprocessor& m, uint3& block, uint3& thread);
// Turns faults of running fibers into failures of their blocks. Once per process, and an alternate stack once per thread.
void install_fault_handler();
void install_signal_stack();

}  // namespace minfer_emu
