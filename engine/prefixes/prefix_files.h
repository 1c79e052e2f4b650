// Stores parts of a prefix store in files, for one model and executor layout. Files are untrusted: sizes, key, tokens
// and checksums are checked, and a bad file is skipped with a warning. A folder's files share its budget across models
// and programs. One thread uses an object; writes run on its own thread.
#pragma once

#include "engine/prefixes/prefix_store.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace ridge::engine {

class PrefixFiles {
 public:
  using Warn = std::function<void(const std::string& line)>; // called from any thread
  struct Limits {
    int64_t context, vocab;
  };
  // `key`: everything that blocks depend on (model, executor layout, cache types). Throws Error if the folder cannot be
  // created.
  PrefixFiles(std::string folder, int64_t budget, std::string key, const PrefixStore::Shape& shape, Limits limits,
              Warn warn);
  ~PrefixFiles();
  PrefixFiles(const PrefixFiles&) = delete;

  // Queues a part unless its file exists; failures give a warning. The blocks must not change until written() returns
  // them. Waits only while kMaxWaiting bytes are queued.
  void write(PrefixPart part);
  void flush();
  // Blocks whose writes ended since the last call.
  std::vector<PrefixBlock> written();
  // Returns the next part for a store that has the first `present` tokens and can start after `usable`. Empty if files
  // add fewer than kWorthKeeping tokens.
  PrefixPart read(std::span<const int32_t> tokens, int64_t present, int64_t usable,
                  const PrefixStore::MakeBlock& make_block);
  int64_t known() const;
  static constexpr int64_t kMaxWaiting = int64_t{1} << 30;

 private:
  struct Entry {
    std::string path;
    int64_t first;
    std::vector<int32_t> tokens;
    std::vector<int64_t> states;
    bool on_disk = false; // false: no file, or a damaged one
    std::shared_ptr<PrefixPart> waiting;
  };
  struct Header;
  static int64_t common(const Entry& entry, std::span<const int32_t> tokens);
  int64_t reach(std::span<const int32_t> tokens, int64_t present) const;
  int64_t usable_of(const Entry& entry, std::span<const int32_t> tokens) const;
  Entry read_entry(const std::string& path) const;
  bool read_part(const Entry& entry, const PrefixStore::MakeBlock& make_block, PrefixPart& part);
  std::string path_of(const PrefixPart& part) const;
  int64_t payload_bytes(const PrefixPart& part) const;
  void run();
  bool write_file(const Entry& entry);
  void keep_budget(int64_t coming);
  void forget(const std::string& path);
  std::vector<Entry>::iterator find(const std::string& path);

  const std::string folder_;
  const int64_t budget_;
  const uint64_t key_;
  const PrefixStore::Shape shape_;
  const Limits limits_;
  const Warn warn_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::deque<std::string> queue_; // paths; the first is being written
  int64_t waiting_bytes_ = 0;
  std::vector<PrefixBlock> written_;
  bool ending_ = false;
  std::thread thread_;
};

} // namespace ridge::engine
