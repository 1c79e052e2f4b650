#include "app/terminal/log_queue.h"

#include "app/terminal/streams.h"

#include <fmt/format.h>

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace ridge::app {
namespace {

constexpr size_t kBytesBesideText = 64; // overhead of an entry

struct Entry {
  std::string text;
  int64_t lines = 1;
  int64_t dropped_before = 0;
  size_t bytes() const { return text.size() + kBytesBesideText; }
};

int64_t lines_of(std::string_view text) { return std::max<int64_t>(1, std::ranges::count(text, '\n')); }

// Writes entries and the count of dropped lines. Allocates nothing: memory may be exhausted.
class Writer {
 public:
  explicit Writer(int file) : file_(file) {}

  void write(const Entry& entry) {
    if (!report_dropped_lines(entry.dropped_before) || !write_text(entry.text)) lost_ += entry.lines;
  }

  // False: cannot be written yet.
  bool report_dropped_lines(int64_t more) {
    lost_ += more;
    if (lost_ == 0) return true;
    char text[64];
    const auto end = fmt::format_to_n(text, sizeof(text), "{} line{} dropped\n", lost_, lost_ == 1 ? " was" : "s were");
    if (!write_text({text, end.size})) return false;
    lost_ = 0;
    return true;
  }

 private:
  bool write_text(std::string_view text) {
    if (begun_ && write_whole(file_, "\n") == 0) return false;
    const size_t written = write_whole(file_, text);
    begun_ = written > 0 && written < text.size();
    return written == text.size();
  }

  const int file_;
  int64_t lost_ = 0;
  bool begun_ = false; // a line was written partly
};

} // namespace

struct LogQueue::State {
  const size_t most_bytes;
  std::mutex mutex = {};
  std::condition_variable added = {}, written = {};
  std::deque<Entry> waiting = {};
  size_t bytes = 0;
  int64_t dropped = 0;
  bool writing = false, ended = false;

  void run(int file) {
    Writer writer(file);
    std::unique_lock lock(mutex);
    while (!ended || !is_empty()) {
      if (is_empty()) {
        added.wait(lock);
        continue;
      }
      writing = true;
      write_first(writer, lock);
      writing = false;
      if (is_empty()) written.notify_all();
    }
  }

  bool is_empty() const { return waiting.empty() && dropped == 0; }

  // Releases the lock while writing.
  void write_first(Writer& writer, std::unique_lock<std::mutex>& lock) {
    if (waiting.empty()) {
      const int64_t lines = std::exchange(dropped, 0);
      lock.unlock();
      writer.report_dropped_lines(lines);
    } else {
      const Entry entry = std::move(waiting.front());
      waiting.pop_front();
      bytes -= entry.bytes();
      lock.unlock();
      writer.write(entry);
    }
    lock.lock();
  }
};

LogQueue::LogQueue(int file, size_t most_bytes) : state_(new State{most_bytes}) {
  sigset_t all, before; // other threads handle signals; SIGPIPE is unwanted
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([state = state_, file] { state->run(file); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogQueue::~LogQueue() {
  const std::scoped_lock lock(state_->mutex);
  state_->ended = true;
  state_->added.notify_one();
}

void LogQueue::add(std::string_view text) noexcept {
  State& state = *state_;
  const int64_t lines = lines_of(text);
  const std::scoped_lock lock(state.mutex);
  try {
    if (state.bytes + text.size() + kBytesBesideText <= state.most_bytes) {
      state.waiting.push_back({std::string(text), lines, state.dropped});
      state.bytes += state.waiting.back().bytes();
      state.dropped = 0;
    } else {
      state.dropped += lines;
    }
  } catch (...) { // out of memory
    state.dropped += lines;
  }
  state.added.notify_one();
}

bool LogQueue::drain(std::chrono::milliseconds patience) noexcept {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  return state.written.wait_for(lock, patience, [&] { return state.is_empty() && !state.writing; });
}

} // namespace ridge::app
