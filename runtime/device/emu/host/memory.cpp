// memory.cpp: buffers between guard pages, with canaries; poison.
#include "machine.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace minfer_emu {

namespace {

// Both patterns are NaN as f32 and, on even addresses, as f16 and bf16; as an index they lead far outside.
constexpr uint32_t kPoisonWord = 0x7fff7fffu, kCanaryWord = 0x7fffc5c5u;
constexpr size_t kGuard = 1 << 20;    // address space on each side; costs no memory
constexpr size_t kCanary = 256;       // at least so much in front
constexpr size_t kQuarantine = 1024;  // freed buffers that stay as guards

size_t page_bytes() {
  static const size_t n = (size_t)sysconf(_SC_PAGESIZE);
  return n;
}

void fill_words(void* p, size_t bytes, uint32_t word) {
  unsigned char* q = static_cast<unsigned char*>(p);
  // The pattern is tied to the address, so that any part can be filled or checked.
  for (; bytes && reinterpret_cast<uintptr_t>(q) % 4; q++, bytes--) *q = (unsigned char)(word >> (8 * (reinterpret_cast<uintptr_t>(q) % 4)));
  uint32_t* w = reinterpret_cast<uint32_t*>(q);
  const size_t n = bytes / 4;
  for (size_t i = 0; i < n; i++) w[i] = word;
  for (size_t i = 4 * n; i < bytes; i++) q[i] = (unsigned char)(word >> (8 * (i % 4)));
}

}  // namespace

void poison(void* p, size_t bytes) { fill_words(p, bytes, kPoisonWord); }
void fill_canary(void* p, size_t bytes) { fill_words(p, bytes, kCanaryWord); }

const unsigned char* canary_damage(const void* p, size_t bytes) {
  const unsigned char* q = static_cast<const unsigned char*>(p);
  for (size_t i = 0; i < bytes; i++)
    if (q[i] != (unsigned char)(kCanaryWord >> (8 * (reinterpret_cast<uintptr_t>(q + i) % 4)))) return q + i;
  return nullptr;
}

Status Memory::allocate(uint64_t bytes, uintptr_t& begin, Message& why) {
  if (bytes == 0) {
    why.add("0 bytes asked for");
    return Status::argument;
  }
  if (bytes > limit_ - used_) {
    why.add("%llu bytes asked for, %llu of %llu are free", (unsigned long long)bytes, (unsigned long long)(limit_ - used_), (unsigned long long)limit_);
    return Status::memory;
  }
  const size_t page = page_bytes(), content = (bytes + 15) / 16 * 16, pages = (kCanary + content + page - 1) / page * page;
  Buffer b;
  b.map_bytes = pages + 2 * kGuard;
  void* map = mmap(nullptr, b.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || mprotect(static_cast<char*>(map) + kGuard, pages, PROT_READ | PROT_WRITE) != 0) {
    if (map != MAP_FAILED) munmap(map, b.map_bytes);
    why.add("the system does not give %llu bytes", (unsigned long long)bytes);
    return Status::memory;
  }
  b.map = reinterpret_cast<uintptr_t>(map);
  b.pages = b.map + kGuard;
  b.limit = b.pages + pages;
  b.begin = b.limit - content;
  b.end = b.begin + bytes;
  b.freed = false;
  fill_canary(reinterpret_cast<void*>(b.pages), b.begin - b.pages);
  poison(reinterpret_cast<void*>(b.begin), bytes);
  fill_canary(reinterpret_cast<void*>(b.end), b.limit - b.end);
  buffers_[b.map] = b;
  used_ += bytes;
  begin = b.begin;
  return Status::ok;
}

Status Memory::release(uintptr_t begin, Message& why) {
  const Buffer* held = holding(begin, 0);
  if (!held || held->begin != begin) {
    const Buffer* near = nearest(begin);
    if (near && near->begin == begin && near->freed) why.add("0x%llx was freed before", (unsigned long long)begin);
    else why.add("0x%llx is not the start of a buffer", (unsigned long long)begin);
    return Status::argument;
  }
  Buffer& b = buffers_[held->map];
  const unsigned char* bad = canary_damage(reinterpret_cast<void*>(b.pages), b.begin - b.pages);
  if (bad) why.add("something wrote %lld bytes before the start of this buffer of %zu bytes", (long long)(b.begin - reinterpret_cast<uintptr_t>(bad)), b.bytes());
  // The pages go back to the system; the addresses stay reserved, so that a late use faults and can be named.
  mmap(reinterpret_cast<void*>(b.map), b.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  b.freed = true;
  used_ -= b.bytes();
  freed_.push_back(b.map);
  if (freed_.size() > kQuarantine) {
    const auto oldest = buffers_.find(freed_.front());
    munmap(reinterpret_cast<void*>(oldest->second.map), oldest->second.map_bytes);
    buffers_.erase(oldest);
    freed_.erase(freed_.begin());
  }
  return bad ? Status::fault : Status::ok;
}

const Buffer* Memory::nearest(uintptr_t address) const {
  auto after = buffers_.upper_bound(address);
  const Buffer* best = nullptr;
  if (after != buffers_.begin()) {
    best = &std::prev(after)->second;
    if (address < best->map + best->map_bytes) return best;
  }
  if (after != buffers_.end() && (!best || after->second.begin - address < address - best->end)) best = &after->second;
  return best;
}

const Buffer* Memory::holding(uintptr_t address, uint64_t bytes) const {
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return nullptr;
  const Buffer& b = std::prev(after)->second;
  if (b.freed || address < b.begin || address > b.end || bytes > b.end - address) return nullptr;
  return &b;
}

const Buffer* Memory::damaged(uintptr_t& address) {
  const Buffer* found = nullptr;
  for (auto& entry : buffers_) {
    Buffer& b = entry.second;
    if (b.freed) continue;
    // In front only the nearest part, on every launch: the whole of it is checked when the buffer is freed.
    const uintptr_t front = b.begin - kCanary;
    const unsigned char* bad = canary_damage(reinterpret_cast<void*>(front), kCanary);
    if (!bad) bad = canary_damage(reinterpret_cast<void*>(b.end), b.limit - b.end);
    if (!bad) continue;
    if (!found) {
      found = &b;
      address = reinterpret_cast<uintptr_t>(bad);
    }
    fill_canary(reinterpret_cast<void*>(front), kCanary);
    fill_canary(reinterpret_cast<void*>(b.end), b.limit - b.end);
  }
  return found;
}

void LaunchState::name_buffer(const Buffer& buffer, Message& out) const {
  for (size_t i = 0; i < args.size(); i++) {
    if (entry->kernel.kinds[i] != ArgKind::pointer || args[i] < buffer.begin || args[i] > buffer.end) continue;
    const uint64_t offset = args[i] - buffer.begin;
    out.add("buffer %s (argument %zu, %zu bytes", i < entry->parameters.size() ? entry->parameters[i].c_str() : "", i, buffer.bytes());
    if (offset) out.add(", passed from byte %llu on", (unsigned long long)offset);
    out.add(")%s", buffer.freed ? ", which was freed" : "");
    return;
  }
  out.add("a buffer of %zu bytes that is no argument%s", buffer.bytes(), buffer.freed ? " and was freed" : "");
}

void LaunchState::describe(uintptr_t address, Message& out) const {
  const Buffer* b = memory->nearest(address);
  if (address < 4096) {
    out.add("address 0x%llx, near the null pointer", (unsigned long long)address);
  } else if (!b) {
    out.add("address 0x%llx; there is no buffer at all", (unsigned long long)address);
  } else if (address >= b->begin && address < b->end) {
    out.add("byte %llu of ", (unsigned long long)(address - b->begin));
    name_buffer(*b, out);
  } else {
    const bool past = address >= b->end;
    const unsigned long long n = past ? address - b->end + 1 : b->begin - address;
    if (address < b->map || address >= b->map + b->map_bytes) out.add("address 0x%llx, far from any buffer; the nearest: ", (unsigned long long)address);
    out.add("%llu byte%s %s of ", n, n == 1 ? "" : "s", past ? "past the end" : "before the start");
    name_buffer(*b, out);
  }
}

}  // namespace minfer_emu
