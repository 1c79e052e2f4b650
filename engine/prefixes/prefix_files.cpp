#include "engine/prefixes/prefix_files.h"

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/hash.h"
#include "core/files/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

namespace ridge::engine {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'R', 'I', 'D', 'G', 'E', 'P', 'F', '1'};
constexpr const char* kEnding = ".ridge-prefix";

// Not cryptographic: forged rows can only cause nonsense.
uint64_t checksum_of(std::span<const std::byte> bytes) { return core::Hash().add(bytes).value(); }

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    struct stat info;
    if (fd_ < 0 || ::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
      close();
      throw_error("{}: cannot be read", path);
    }
    size_ = info.st_size;
  }
  ~Reader() { close(); }
  Reader(const Reader&) = delete;

  int64_t size() const { return size_; }
  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::read(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw_error("{}: the file is truncated", path_);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  void skip(int64_t bytes) { ::lseek(fd_, bytes, SEEK_CUR); }

 private:
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  const std::string path_;
  int fd_;
  int64_t size_ = 0;
};

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Files are evicted by their times. The kernel sets the same for several files within a tick of some milliseconds.
void touch(const std::string& path) {
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

} // namespace

// Followed by tokens (i32), state positions (i64), blocks, states (f32).
struct PrefixFiles::Header {
  char magic[8];
  uint64_t key;
  int64_t first, tokens, blocks, states, block_bytes, state_elements;
  uint64_t index_checksum;
  uint64_t payload_checksum;
  uint64_t checksum;
};

PrefixFiles::PrefixFiles(std::string folder, int64_t budget, std::string key, const PrefixStore::Shape& shape,
                         Limits limits, Warn warn)
    : folder_(std::move(folder)), budget_(budget), key_(core::Hash().add(key).value()), shape_(shape), limits_(limits),
      warn_(std::move(warn)) {
  std::error_code error;
  core::create_private_folders(folder_, error);
  if (!fs::is_directory(folder_, error)) throw_error("--cache-dir: {}: not a folder, and cannot be created", folder_);
  const std::string ours = fmt::format("{:016x}-", key_);
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(ours) || !name.ends_with(kEnding)) continue;
    try {
      entries_.push_back(read_entry(at->path().string()));
    } catch (const std::exception& problem) {
      warn_(fmt::format("{}; skipped", problem.what()));
    }
  }
  if (error) throw_error("--cache-dir: {}: {}", folder_, error.message());
  thread_ = std::thread([this] { run(); });
}

PrefixFiles::~PrefixFiles() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

PrefixFiles::Entry PrefixFiles::read_entry(const std::string& path) const {
  const auto refuse = [&](const char* what) { throw_error("{}: {}", path, what); };
  Reader reader(path);
  Header header;
  reader.read(std::as_writable_bytes(std::span(&header, 1)));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) refuse("not a file of cached prefixes");
  if (header.checksum != checksum_of(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum))))
    refuse("the header is damaged");
  if (header.key != key_ || header.block_bytes != shape_.block_bytes || header.state_elements != shape_.state_elements)
    refuse("belongs to another model or cache configuration");
  if (header.tokens < 1 || header.tokens > limits_.context || header.first < 0 || header.first >= header.tokens ||
      header.states < 0 || header.states > header.tokens)
    refuse("the sizes are inconsistent");
  Entry entry{path, header.first, {}, {}, true, nullptr};
  const int64_t blocks =
      (header.tokens + shape_.block_positions - 1) / shape_.block_positions - header.first / shape_.block_positions;
  const int64_t index_bytes =
      header.tokens * static_cast<int64_t>(sizeof(int32_t)) + header.states * static_cast<int64_t>(sizeof(int64_t));
  const int64_t payload =
      blocks * shape_.block_bytes + header.states * shape_.state_elements * static_cast<int64_t>(sizeof(float));
  if (header.blocks != blocks || reader.size() != static_cast<int64_t>(sizeof(Header)) + index_bytes + payload)
    refuse("the file size does not match the header");
  entry.tokens.resize(header.tokens);
  entry.states.resize(header.states);
  reader.read(bytes_of(entry.tokens));
  reader.read(bytes_of(entry.states));
  core::Hash sum;
  sum.add(bytes_of(entry.tokens));
  sum.add(bytes_of(entry.states));
  if (sum.value() != header.index_checksum) refuse("the tokens are damaged");
  const bool known = std::ranges::all_of(
      entry.tokens, [&](int32_t token) { return (token >= 0 && token < limits_.vocab) || is_adapter_mark(token); });
  const bool placed =
      std::ranges::is_sorted(entry.states, std::less_equal()) &&
      std::ranges::all_of(entry.states, [&](int64_t at) { return at > entry.first && at <= header.tokens; });
  if (!known || !placed) refuse("invalid tokens or positions");
  return entry;
}

int64_t PrefixFiles::common(const Entry& entry, std::span<const int32_t> tokens) {
  return std::ranges::mismatch(entry.tokens, tokens).in1 - entry.tokens.begin();
}

int64_t PrefixFiles::usable_of(const Entry& entry, std::span<const int32_t> tokens) const {
  const int64_t same = common(entry, tokens);
  if (shape_.state_elements == 0) return same;
  const auto behind = std::ranges::upper_bound(entry.states, same);
  return behind == entry.states.begin() ? 0 : *std::prev(behind);
}

// Requires the lock. Tokens to start after, with files that build on each other and on `present` tokens.
int64_t PrefixFiles::reach(std::span<const int32_t> tokens, int64_t present) const {
  int64_t most = 0;
  for (int64_t before = -1; before < present;) {
    before = present;
    for (const Entry& entry : entries_)
      if (entry.first <= present) {
        present = std::max(present, common(entry, tokens));
        most = std::max(most, usable_of(entry, tokens));
      }
  }
  return most;
}

PrefixPart PrefixFiles::read(std::span<const int32_t> tokens, int64_t present, int64_t usable,
                             const PrefixStore::MakeBlock& make_block) {
  for (;;) {
    Entry entry;
    {
      const std::scoped_lock lock(mutex_);
      if (reach(tokens, present) < usable + kWorthKeeping) return {};
      const Entry* best = nullptr;
      std::pair most(present, usable);
      for (const Entry& one : entries_)
        if (one.first <= present)
          if (const std::pair has(common(one, tokens), usable_of(one, tokens)); has > most) best = &one, most = has;
      if (!best) return {};
      if (best->waiting) return *best->waiting;
      entry = *best;
    }
    PrefixPart part;
    if (read_part(entry, make_block, part)) return part;
    forget(entry.path);
  }
}

bool PrefixFiles::read_part(const Entry& known, const PrefixStore::MakeBlock& make_block, PrefixPart& part) {
  try {
    const Entry entry = read_entry(known.path); // another program may have replaced the file
    if (entry.tokens != known.tokens || entry.first != known.first || entry.states != known.states)
      throw_error("{}: has changed", entry.path);
    Reader reader(entry.path);
    Header header;
    reader.read(std::as_writable_bytes(std::span(&header, 1)));
    reader.skip(std::ssize(entry.tokens) * static_cast<int64_t>(sizeof(int32_t)) +
                std::ssize(entry.states) * static_cast<int64_t>(sizeof(int64_t)));
    part = {entry.first, entry.tokens, {}, {}};
    core::Hash sum;
    for (int64_t i = 0; i < header.blocks && shape_.block_bytes > 0; ++i) {
      part.blocks.push_back(make_block());
      const std::span bytes(part.blocks.back().get(), static_cast<size_t>(shape_.block_bytes));
      reader.read(bytes);
      sum.add(bytes);
    }
    for (const int64_t position : entry.states) {
      const auto state = std::make_shared_for_overwrite<float[]>(shape_.state_elements);
      const auto bytes = std::as_writable_bytes(std::span(state.get(), shape_.state_elements));
      reader.read(bytes);
      sum.add(bytes);
      part.states.emplace(position, PrefixState(state, state.get()));
    }
    if (sum.value() != header.payload_checksum) throw_error("{}: is damaged", entry.path);
    touch(entry.path);
    return true;
  } catch (const Error& error) {
    if (std::error_code ignored; fs::exists(known.path, ignored)) warn_(fmt::format("{}; skipped", error.what()));
    return false; // else another program evicted it
  }
}

std::string PrefixFiles::path_of(const PrefixPart& part) const {
  core::Hash sum;
  sum.add(std::as_bytes(std::span(&part.first, 1)));
  sum.add(std::as_bytes(std::span(part.tokens)));
  for (const auto& [position, state] : part.states) sum.add(std::as_bytes(std::span(&position, 1)));
  return (fs::path(folder_) / fmt::format("{:016x}-{:016x}{}", key_, sum.value(), kEnding)).string();
}

int64_t PrefixFiles::payload_bytes(const PrefixPart& part) const {
  return std::ssize(part.blocks) * shape_.block_bytes +
         std::ssize(part.states) * shape_.state_elements * static_cast<int64_t>(sizeof(float));
}

void PrefixFiles::write(PrefixPart part) {
  const std::string path = path_of(part);
  const int64_t bytes = payload_bytes(part);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() || waiting_bytes_ + bytes <= kMaxWaiting; });
  auto entry = find(path);
  if (entry == entries_.end()) {
    entries_.push_back({path, part.first, part.tokens, {}, false, nullptr});
    entry = std::prev(entries_.end());
    for (const auto& [position, state] : part.states) entry->states.push_back(position);
  }
  if (entry->waiting) return;
  entry->waiting = std::make_shared<PrefixPart>(std::move(part));
  waiting_bytes_ += bytes;
  queue_.push_back(path);
  changed_.notify_all();
}

void PrefixFiles::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty(); });
}

std::vector<PrefixBlock> PrefixFiles::written() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(written_, {});
}

int64_t PrefixFiles::known() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(entries_);
}

void PrefixFiles::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Entry entry = *find(queue_.front());
    lock.unlock();
    bool is_there = false;
    try {
      is_there = write_file(entry);
    } catch (const std::exception& error) {
      warn_(fmt::format("--cache-dir: {}", error.what()));
    }
    lock.lock();
    const auto known = find(entry.path);
    known->waiting.reset();
    known->on_disk = is_there;
    if (!is_there) entries_.erase(known);
    waiting_bytes_ -= payload_bytes(*entry.waiting);
    for (PrefixBlock& block : entry.waiting->blocks) written_.push_back(std::move(block));
    queue_.pop_front();
    changed_.notify_all();
  }
}

// Returns false if the part exceeds the folder's budget.
bool PrefixFiles::write_file(const Entry& entry) {
  const PrefixPart& part = *entry.waiting;
  if (std::error_code ignored; entry.on_disk && fs::exists(entry.path, ignored)) {
    touch(entry.path);
    return true;
  }
  core::Hash index, payload;
  index.add(std::as_bytes(std::span(entry.tokens)));
  index.add(std::as_bytes(std::span(entry.states)));
  std::vector<std::span<const std::byte>> pieces;
  for (const PrefixBlock& block : part.blocks)
    pieces.emplace_back(block.get(), static_cast<size_t>(shape_.block_bytes));
  for (const auto& [position, state] : part.states)
    pieces.push_back(std::as_bytes(std::span(state.get(), shape_.state_elements)));
  int64_t bytes =
      sizeof(Header) + std::as_bytes(std::span(entry.tokens)).size() + std::as_bytes(std::span(entry.states)).size();
  for (const auto piece : pieces) payload.add(piece), bytes += std::ssize(piece);
  if (bytes > budget_) return false;
  const int64_t block = shape_.block_positions;
  Header header = {{},
                   key_,
                   part.first,
                   std::ssize(part.tokens),
                   (std::ssize(part.tokens) + block - 1) / block - part.first / block,
                   std::ssize(part.states),
                   shape_.block_bytes,
                   shape_.state_elements,
                   index.value(),
                   payload.value(),
                   0};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.checksum = checksum_of(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
  keep_budget(bytes);
  core::AtomicFile file(entry.path, bytes, core::kPrivateFile);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(entry.tokens)));
  file.write(std::as_bytes(std::span(entry.states)));
  for (const auto piece : pieces) file.write(piece);
  file.publish(); // no fsync: checksums detect damage
  touch(entry.path);
  return true;
}

// Removes the oldest files, of any model, until there is room. Forgets files that other programs removed.
void PrefixFiles::keep_budget(int64_t coming) {
  struct Found {
    fs::file_time_type time;
    std::string path;
    int64_t bytes;
  };
  std::vector<Found> files;
  std::set<std::string> present;
  std::error_code error;
  int64_t sum = coming;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (!at->path().string().ends_with(kEnding) || !at->is_regular_file(gone)) continue;
    const auto bytes = static_cast<int64_t>(at->file_size(gone));
    const auto time = at->last_write_time(gone);
    if (gone) continue;
    files.push_back({time, at->path().string(), bytes});
    present.insert(at->path().string());
    sum += bytes;
  }
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return !entry.waiting && !present.contains(entry.path); });
  }
  std::ranges::sort(files, {}, &Found::time);
  for (const Found& file : files) {
    if (sum <= budget_) return;
    fs::remove(file.path, error);
    forget(file.path);
    sum -= file.bytes;
  }
}

void PrefixFiles::forget(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  const auto entry = find(path);
  if (entry == entries_.end()) return;
  entry->on_disk = false;
  if (!entry->waiting) entries_.erase(entry);
}

std::vector<PrefixFiles::Entry>::iterator PrefixFiles::find(const std::string& path) {
  return std::ranges::find(entries_, path, &Entry::path);
}

} // namespace ridge::engine
