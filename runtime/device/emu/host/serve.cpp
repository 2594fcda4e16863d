// serve.cpp: the emulator program. It obeys requests on its standard input and answers each on its standard output; see protocol.go, the
// other end. It ends when its input does.
#include "machine.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

namespace minfer_emu {

namespace {

constexpr uint32_t kProtocol = 1;
enum class Op : uint32_t { load = 1, alloc, free, upload, download, fill, launch, symbol, witness_start, witness_stop };

struct SymbolEntry {
  const void* data;
  size_t bytes;
  std::string unit;
};

// What units register while they are being loaded; adopted only when the whole unit is good.
std::vector<Kernel> new_kernels;
std::vector<std::pair<std::string, SymbolEntry>> new_symbols;

}  // namespace

void register_kernel(const Kernel& kernel) { new_kernels.push_back(kernel); }
void register_symbol(const char* name, const void* data, size_t bytes) { new_symbols.push_back({name, {data, bytes, ""}}); }

void Witness::count(long long row, long long unit, long long token) {
  if (row < 0 || row >= rows || unit < 0 || unit >= units || token < 0 || token >= tokens) {
    std::lock_guard<std::mutex> lock(mutex);
    outside++;
    if (first_outside.size() < 3 * 16) first_outside.insert(first_outside.end(), {row, unit, token});
    return;
  }
  uint16_t* c = &counts[((size_t)token * rows + row) * units + unit];
  if (__atomic_add_fetch(c, 1, __ATOMIC_RELAXED) == 0) __atomic_store_n(c, UINT16_MAX, __ATOMIC_RELAXED);
}

namespace {

// ---- Bytes in and out

void read_all(void* p, size_t bytes) {
  char* q = static_cast<char*>(p);
  while (bytes) {
    const ssize_t n = read(0, q, bytes);
    if (n > 0) {
      q += n;
      bytes -= (size_t)n;
    } else if (n == 0) {
      _exit(0);  // the host is gone or has closed the device
    } else if (errno != EINTR) {
      _exit(1);
    }
  }
}
void write_all(const void* p, size_t bytes) {
  const char* q = static_cast<const char*>(p);
  while (bytes) {
    const ssize_t n = write(1, q, bytes);
    if (n > 0) {
      q += n;
      bytes -= (size_t)n;
    } else if (errno != EINTR) {
      _exit(1);
    }
  }
}

std::mutex reply_mutex;
void reply(Status status, bool fatal, const void* payload, size_t bytes) {
  struct {
    uint32_t status, fatal;
    uint64_t bytes;
  } header = {(uint32_t)status, fatal, bytes};
  write_all(&header, sizeof header);
  write_all(payload, bytes);
}
void reply(Status status, const std::string& text) { reply(status, false, text.data(), text.size()); }
void reply_ok(const void* payload = "", size_t bytes = 0) { reply(Status::ok, false, payload, bytes); }

// A request's payload, read from the front.
class Reader {
 public:
  explicit Reader(const std::vector<char>& data) : data_(data) {}
  template <typename T> T take() {
    T v{};
    if (data_.size() - at_ < sizeof v) broken();
    memcpy(&v, data_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  std::string text() {
    const uint32_t n = take<uint32_t>();
    if (data_.size() - at_ < n) broken();
    std::string s(data_.data() + at_, n);
    at_ += n;
    return s;
  }

 private:
  [[noreturn]] void broken() {
    fprintf(stderr, "emulator: a request is too short\n");
    _exit(1);
  }
  const std::vector<char>& data_;
  size_t at_ = 0;
};

// "(const uint8_t* w, int rows)" to "w", "rows".
std::vector<std::string> parameter_names(const char* params) {
  std::vector<std::string> names;
  std::string name;
  for (const char* p = params; *p; p++) {
    if (isalnum((unsigned char)*p) || *p == '_') {
      if (p == params || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) name.clear();
      name += *p;
    } else if ((*p == ',' || *p == ')') && !name.empty()) {
      names.push_back(name);
      name.clear();
    }
  }
  return names;
}

const char* kind_name(uint32_t kind) {
  switch ((ArgKind)kind) {
    case ArgKind::pointer: return "a pointer";
    case ArgKind::i32: return "an int";
    case ArgKind::u32: return "an unsigned";
    case ArgKind::i64: return "a long long";
    case ArgKind::f32: return "a float";
  }
  return "of an unknown kind";
}

// ---- The device

class Device {
 public:
  Device(unsigned threads, uint64_t memory, const Settings& settings) : memory_(memory), settings_(settings) {
    for (unsigned i = 0; i < threads; i++) multiprocessors_.push_back(make_multiprocessor());
    for (unsigned i = 1; i < threads; i++) std::thread([this, i] { help(i); }).detach();
    std::thread([this] { watch(); }).detach();
  }

  void load(Reader& in);
  void alloc(Reader& in);
  void release(Reader& in);
  void upload(uint64_t bytes);
  void download(Reader& in);
  void fill(Reader& in);
  void launch(Reader& in);
  void symbol(Reader& in);
  void witness_start(Reader& in);
  void witness_stop();
  unsigned threads() const { return (unsigned)multiprocessors_.size(); }
  uint64_t memory_bytes() const { return memory_.limit(); }

 private:
  bool prepare(LaunchState& l, Reader& in, uint64_t& timeout_ms);
  void run(LaunchState& l, uint64_t timeout_ms);
  void help(unsigned i);
  void watch();
  [[noreturn]] void give_up();

  Memory memory_;
  Settings settings_;
  std::map<std::string, KernelEntry> kernels_;
  std::map<std::string, SymbolEntry> symbols_;
  std::vector<Multiprocessor*> multiprocessors_;
  uint64_t launches_ = 0;
  std::unique_ptr<Witness> witness_;

  std::mutex mutex_;  // of what follows
  std::condition_variable work_, done_;
  LaunchState* current_ = nullptr;
  uint64_t generation_ = 0;  // launches with helpers
  unsigned helping_ = 0;
  bool timed_ = false;
  std::chrono::steady_clock::time_point deadline_;
  uint64_t timeout_ms_ = 0;
};

void Device::load(Reader& in) {
  const std::string unit = in.text(), path = in.text();
  const uint32_t expected = in.take<uint32_t>();
  std::vector<std::string> names;
  for (uint32_t i = 0; i < expected; i++) names.push_back(in.text());

  new_kernels.clear();
  new_symbols.clear();
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) return reply(Status::failed, std::string("loading: ") + dlerror());
  auto refuse = [&](const std::string& text) {
    dlclose(object);
    reply(Status::failed, text);
  };
  for (const std::string& name : names) {
    if (std::none_of(new_kernels.begin(), new_kernels.end(), [&](const Kernel& k) { return name == k.name; })) return refuse("it does not define kernel " + name);
  }
  for (const Kernel& k : new_kernels) {
    const auto known = kernels_.find(k.name);
    if (known != kernels_.end()) return refuse(std::string("kernel ") + k.name + " is already defined by " + known->second.unit);
  }
  for (const auto& s : new_symbols) {
    const auto known = symbols_.find(s.first);
    if (known != symbols_.end()) return refuse("symbol " + s.first + " is already defined by " + known->second.unit);
  }
  for (const Kernel& k : new_kernels) kernels_[k.name] = {k, unit, parameter_names(k.params)};
  for (auto& s : new_symbols) {
    s.second.unit = unit;
    symbols_[s.first] = s.second;
  }
  reply_ok();
}

void Device::alloc(Reader& in) {
  uintptr_t begin = 0;
  Message why;
  const Status s = memory_.allocate(in.take<uint64_t>(), begin, why);
  if (s != Status::ok) return reply(s, why.text);
  const uint64_t pointer = begin;
  reply_ok(&pointer, sizeof pointer);
}

void Device::release(Reader& in) {
  Message why;
  const Status s = memory_.release(in.take<uint64_t>(), why);
  reply(s, s == Status::ok ? "" : why.text);
}

std::string outside(uint64_t pointer, uint64_t bytes) {
  Message m;
  m.add("0x%llx and %llu bytes are not within one buffer", (unsigned long long)pointer, (unsigned long long)bytes);
  return m.text;
}

// The only request whose payload is not read as a whole before: the data goes straight to its place.
void Device::upload(uint64_t bytes) {
  uint64_t to;
  read_all(&to, sizeof to);
  uint64_t left = bytes - sizeof to;
  if (memory_.holding(to, left)) {
    read_all(reinterpret_cast<void*>(to), left);
    return reply_ok();
  }
  const std::string text = outside(to, left);
  std::vector<char> away(1 << 16);
  for (; left; left -= std::min<uint64_t>(left, away.size())) read_all(away.data(), std::min<uint64_t>(left, away.size()));
  reply(Status::argument, text);
}

void Device::download(Reader& in) {
  const uint64_t from = in.take<uint64_t>(), bytes = in.take<uint64_t>();
  if (!memory_.holding(from, bytes)) return reply(Status::argument, outside(from, bytes));
  reply_ok(reinterpret_cast<const void*>(from), bytes);
}

void Device::fill(Reader& in) {
  const uint64_t to = in.take<uint64_t>(), bytes = in.take<uint64_t>();
  const uint32_t value = in.take<uint32_t>();
  if (!memory_.holding(to, bytes)) return reply(Status::argument, outside(to, bytes));
  memset(reinterpret_cast<void*>(to), (int)value, bytes);
  reply_ok();
}

void Device::symbol(Reader& in) {
  const auto found = symbols_.find(in.text());
  if (found == symbols_.end()) return reply(Status::unknown_symbol, "no loaded unit exports it");
  reply_ok(found->second.data, found->second.bytes);
}

// ---- Launches

// Reads the request and checks it against the kernel; false if it was refused, with the reply made.
bool Device::prepare(LaunchState& l, Reader& in, uint64_t& timeout_ms) {
  const std::string name = in.text();
  l.grid.x = in.take<uint32_t>(), l.grid.y = in.take<uint32_t>(), l.grid.z = in.take<uint32_t>();
  l.dim.x = in.take<uint32_t>(), l.dim.y = in.take<uint32_t>(), l.dim.z = in.take<uint32_t>();
  l.dynamic_bytes = in.take<uint32_t>();
  l.dependent = in.take<uint32_t>() != 0;
  timeout_ms = in.take<uint64_t>();
  const uint32_t count = in.take<uint32_t>();
  auto refuse = [](Status s, const Message& m) {
    reply(s, m.text);
    return false;
  };
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return refuse(Status::unknown_kernel, Message().add("no loaded unit defines it"));
  l.entry = &found->second;
  const Kernel& k = l.entry->kernel;
  const uint64_t threads = (uint64_t)l.dim.x * l.dim.y * l.dim.z;
  if (threads > k.threads || threads > kMaxThreads) {
    return refuse(Status::limit, Message().add("a block of %llu threads; the kernel's launch bound is %u", (unsigned long long)threads, k.threads));
  }
  if (l.dynamic_bytes > settings_.shared_limit) {
    return refuse(Status::limit, Message().add("%u bytes of dynamic shared memory; allowed are %zu", l.dynamic_bytes, settings_.shared_limit));
  }
  if (count != k.count) return refuse(Status::argument, Message().add("%u arguments given, it takes %u: %s", count, k.count, k.params));
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t kind = in.take<uint32_t>();
    const uint64_t bits = in.take<uint64_t>();
    const uint32_t takes = (uint32_t)k.kinds[i];
    const char* parameter = i < l.entry->parameters.size() ? l.entry->parameters[i].c_str() : "";
    const bool both_int = (kind == (uint32_t)ArgKind::i32 || kind == (uint32_t)ArgKind::u32) && (takes == (uint32_t)ArgKind::i32 || takes == (uint32_t)ArgKind::u32);
    if (kind != takes && !both_int) return refuse(Status::argument, Message().add("argument %u (%s) is %s, the kernel takes %s", i, parameter, kind_name(kind), kind_name(takes)));
    if (takes == (uint32_t)ArgKind::pointer && bits && !memory_.holding(bits, 0)) {
      return refuse(Status::argument, Message().add("argument %u (%s) points to 0x%llx, which is in no buffer", i, parameter, (unsigned long long)bits));
    }
    l.args.push_back(bits);
  }
  return true;
}

void Device::launch(Reader& in) {
  LaunchState l;
  uint64_t timeout_ms = 0;
  if (!prepare(l, in, timeout_ms)) return;
  l.serial = ++launches_;
  l.blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
  l.memory = &memory_;
  l.witness = witness_.get();
  l.settings = settings_;
  run(l, timeout_ms);

  std::lock_guard<std::mutex> lock(reply_mutex);
  uintptr_t address = 0;
  const Buffer* bad = memory_.damaged(address);
  if (l.failure.status != Status::ok) return reply(l.failure.status, l.failure.text);
  if (bad) {
    Message m;
    m.add("some thread wrote ");
    l.describe(address, m);
    return reply(Status::fault, m.text);
  }
  reply_ok();
}

// This thread runs blocks; the helpers do too if there is more than one block.
void Device::run(LaunchState& l, uint64_t timeout_ms) {
  const bool shared = l.blocks > 1 && multiprocessors_.size() > 1;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    current_ = &l;
    timed_ = timeout_ms != 0;
    timeout_ms_ = timeout_ms;
    deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    if (shared) {
      generation_++;
      helping_ = (unsigned)multiprocessors_.size() - 1;
    }
  }
  if (shared) work_.notify_all();
  run_blocks(*multiprocessors_[0], l);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return helping_ == 0; });
  current_ = nullptr;
  timed_ = false;
}

void Device::help(unsigned i) {
  install_signal_stack();
  uint64_t seen = 0;
  for (;;) {
    LaunchState* l;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      l = current_;
    }
    run_blocks(*multiprocessors_[i], *l);
    std::lock_guard<std::mutex> lock(mutex_);
    if (--helping_ == 0) done_.notify_one();
  }
}

// Ends the process when a launch takes too long, or when the host is gone while a launch runs.
void Device::watch() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    pollfd host = {0, 0, 0};
    if (poll(&host, 1, 0) > 0 && (host.revents & (POLLHUP | POLLERR | POLLNVAL))) _exit(0);
    std::lock_guard<std::mutex> lock(mutex_);
    if (current_ && timed_ && std::chrono::steady_clock::now() > deadline_) give_up();
  }
}

void Device::give_up() {
  reply_mutex.lock();  // for good
  Message m;
  m.add("it did not end within %llu ms", (unsigned long long)timeout_ms_);
  bool first = true;
  for (const Multiprocessor* p : multiprocessors_) {
    uint3 b, t;
    if (!now_running(*p, b, t)) continue;
    m.add("%s block (%u,%u,%u) thread (%u,%u,%u)", first ? "; running are" : ",", b.x, b.y, b.z, t.x, t.y, t.z);
    first = false;
  }
  reply(Status::timeout, true, m.text, m.length);
  _exit(3);
}

// ---- The witness

void Device::witness_start(Reader& in) {
  auto w = std::make_unique<Witness>();
  w->rows = in.take<int64_t>(), w->units = in.take<int64_t>(), w->tokens = in.take<int64_t>();
  const uint64_t limit = memory_.limit() / 2;
  if (w->rows < 1 || w->units < 1 || w->tokens < 1 || (uint64_t)w->rows > limit / w->units || (uint64_t)w->rows * w->units > limit / w->tokens) {
    return reply(Status::argument, "the space must have at least one cell and at most as many as half the device's memory has bytes");
  }
  w->counts.assign((size_t)w->rows * w->units * w->tokens, 0);
  witness_ = std::move(w);
  reply_ok();
}

void Device::witness_stop() {
  if (!witness_) return reply(Status::failed, "it was not started");
  const Witness& w = *witness_;
  // min, max, missing, repeated, outside; then three lists of (count of entries; row, unit, token, count each).
  std::vector<int64_t> out(5);
  std::vector<int64_t> missing, repeated;
  uint16_t least = UINT16_MAX, most = 0;
  for (size_t i = 0; i < w.counts.size(); i++) {
    const uint16_t c = w.counts[i];
    least = std::min(least, c);
    most = std::max(most, c);
    if (c == 1) continue;
    out[c == 0 ? 2 : 3]++;
    std::vector<int64_t>& list = c == 0 ? missing : repeated;
    const int64_t cell = (int64_t)i, unit = cell % w.units, row = cell / w.units % w.rows, token = cell / w.units / w.rows;
    if (list.size() < 4 * 16) list.insert(list.end(), {row, unit, token, c});
  }
  out[0] = least;
  out[1] = most;
  out[4] = (int64_t)w.outside;
  auto append = [&out](const std::vector<int64_t>& list) {
    out.push_back((int64_t)list.size() / 4);
    out.insert(out.end(), list.begin(), list.end());
  };
  append(missing);
  append(repeated);
  std::vector<int64_t> outside;
  for (size_t i = 0; i < w.first_outside.size(); i += 3) outside.insert(outside.end(), {w.first_outside[i], w.first_outside[i + 1], w.first_outside[i + 2], 1});
  append(outside);
  witness_.reset();
  reply_ok(out.data(), out.size() * sizeof out[0]);
}

}  // namespace

int serve(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "this program is started by minfer's emulator device\n");
    return 2;
  }
  signal(SIGINT, SIG_IGN);  // the host decides
  signal(SIGPIPE, SIG_IGN);
  unsigned threads = (unsigned)atoi(argv[1]);
  if (!threads) threads = std::thread::hardware_concurrency();
  threads = std::min(16u, std::max(1u, threads));  // each has some 2000 mappings for its stacks; a process may have some 65000
  uint64_t memory = strtoull(argv[2], nullptr, 10);
  if (!memory) memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4 * 3;
  Settings settings;
  settings.strict = strcmp(argv[3], "strict") == 0;
  settings.shared_limit = strtoull(argv[4], nullptr, 10);

  install_fault_handler();
  install_signal_stack();
  Device device(threads, memory, settings);
  struct {
    uint32_t protocol, threads;
    uint64_t memory;
  } hello = {kProtocol, device.threads(), device.memory_bytes()};
  reply_ok(&hello, sizeof hello);
  std::vector<char> payload;
  for (;;) {
    struct {
      uint32_t op, zero;
      uint64_t bytes;
    } header;
    read_all(&header, sizeof header);
    if ((Op)header.op == Op::upload) {
      device.upload(header.bytes);
      continue;
    }
    payload.resize(header.bytes);
    read_all(payload.data(), payload.size());
    Reader in(payload);
    switch ((Op)header.op) {
      case Op::load: device.load(in); break;
      case Op::alloc: device.alloc(in); break;
      case Op::free: device.release(in); break;
      case Op::download: device.download(in); break;
      case Op::fill: device.fill(in); break;
      case Op::launch: device.launch(in); break;
      case Op::symbol: device.symbol(in); break;
      case Op::witness_start: device.witness_start(in); break;
      case Op::witness_stop: device.witness_stop(); break;
      default: reply(Status::failed, "unknown request");
    }
  }
}

}  // namespace minfer_emu

int main(int argc, char** argv) { return minfer_emu::serve(argc, argv); }
