// Parts of a prefix store in files, so that they outlive it. A file has a part's tokens, blocks and states, for one
// model on one kind of executor. Nothing in a file is trusted: sizes are checked against the file's own before memory
// is taken, the text of the model's key, the tokens and a checksum before anything is used. A file that fails a check
// is left out, with a line that says so.
//
// Files are named after the model's key and the tokens, and the files of all models in a folder share its budget: the
// oldest go. One thread uses an object; several programs may use a folder. Another thread writes, so that no sequence
// waits for a disk: a part that waits to be written is read from memory.
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
  using Warn = std::function<void(const std::string& line)>; // from any thread
  struct Limits {
    int64_t context, vocab; // tokens of a sequence; token ids are below `vocab`
  };
  // `key` says what blocks depend on: the model, the executor's layout, the types of the caches. Throws Error where the
  // folder cannot be made.
  PrefixFiles(std::string folder, int64_t budget, std::string key, const PrefixStore::Shape& shape, Limits limits,
              Warn warn);
  ~PrefixFiles(); // writes what waits
  PrefixFiles(const PrefixFiles&) = delete;

  // Has a part written, unless its file is there. What goes wrong is a line, and no more. Its blocks must not change
  // until written() gives them back. Comes back at once, but where parts of kMostWaiting bytes wait already.
  void write(PrefixPart part);
  void flush(); // waits until all are written
  // Blocks of parts that were written since the last call.
  std::vector<PrefixBlock> written();
  // The next part of those that build on each other and let one start behind most of these tokens, where the store that
  // they go to has the `present` first ones and `usable` to start behind. Empty where files bring no kWorthKeeping
  // more.
  PrefixPart read(std::span<const int32_t> tokens, int64_t present, int64_t usable,
                  const PrefixStore::MakeBlock& make_block);
  int64_t known() const;                                    // files, and parts that wait to be written
  static constexpr int64_t kMostWaiting = int64_t{1} << 30; // bytes

 private:
  struct Entry {
    std::string path;
    int64_t first;
    std::vector<int32_t> tokens;
    std::vector<int64_t> states;         // positions
    bool on_disk = false;                // in a file that was not found damaged
    std::shared_ptr<PrefixPart> waiting; // to be written; null: nothing is
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
  std::deque<std::string> queue_; // paths of what waits; the first one is being written
  int64_t waiting_bytes_ = 0;
  std::vector<PrefixBlock> written_; // blocks of written parts, no longer read here
  bool ending_ = false;
  std::thread thread_;
};

} // namespace ridge::engine
