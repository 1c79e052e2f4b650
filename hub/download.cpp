#include "hub/download.h"

#include "core/error.h"
#include "core/files/sha256.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::hub {
namespace {

constexpr int kOk = 200, kPart = 206;
constexpr int64_t kNoteEvery = int64_t{1} << 20; // bytes between progress notes on disk

class Hash {
 public:
  // Hashes what the file holds after at(), up to `end` and at most `most` bytes.
  void follow(const IncompleteFile& file, int64_t end, int64_t most = kStep) {
    for (int64_t left = std::min(end - at_, most); left > 0;) {
      const size_t n = file.read(at_, std::span(buffer_).first(static_cast<size_t>(std::min<int64_t>(left, kBuffer))));
      if (n == 0) throw_error("the file became shorter");
      hash_.add(std::as_bytes(std::span(buffer_).first(n)));
      at_ += static_cast<int64_t>(n);
      left -= static_cast<int64_t>(n);
    }
  }
  int64_t at() const { return at_; }
  std::string text() { return hash_.hex(); }
  static constexpr int64_t kStep = int64_t{8} << 20;

 private:
  static constexpr int64_t kBuffer = int64_t{1} << 20;
  core::Sha256 hash_;
  std::vector<char> buffer_ = std::vector<char>(kBuffer);
  int64_t at_ = 0;
};

struct ContentRange {
  int64_t first = -1, total = -1;
};

ContentRange parse_content_range(std::string_view text) {
  ContentRange range;
  const size_t digits = text.find_first_of("0123456789"), slash = text.find('/');
  if (digits == std::string_view::npos || slash == std::string_view::npos) return {};
  std::from_chars(text.data() + digits, text.data() + text.size(), range.first);
  std::from_chars(text.data() + slash + 1, text.data() + text.size(), range.total);
  return range;
}

class Fetch {
 public:
  Fetch(const Download& what, const RequestPolicy& policy, IncompleteFile& file, const DownloadOptions& options,
        const std::function<void(const Head&)>& refused)
      : what_(what), cancel_(policy.cancel), policy_(policy), file_(file), options_(options), refused_(refused) {
    policy_.cancel = &stopping_;
    int64_t missing = 0;
    for (int64_t i = 0; i < file_.pieces(); ++i) missing += !file_.is_full(i);
    running_ = static_cast<int>(std::min<int64_t>(options_.connections, missing));
    for (int i = running_; i > 0; --i)
      workers_.emplace_back([this] {
        try {
          work();
        } catch (...) {
          stop(std::current_exception());
        }
        const std::scoped_lock lock(mutex_);
        --running_;
        changed_.notify_all();
      });
  }
  ~Fetch() { stop(nullptr); }

  // Waits; false: all workers have ended. Rethrows a worker's exception.
  bool wait(int milliseconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] { return running_ == 0; });
    if (cancel_ && cancel_->load()) stopping_ = true;
    if (running_ > 0) return true;
    if (problem_) std::rethrow_exception(problem_);
    return false;
  }
  bool whole() const { return whole_file_connection_; }

 private:
  void stop(std::exception_ptr problem) {
    const std::scoped_lock lock(mutex_);
    if (!problem_) problem_ = std::move(problem);
    stopping_ = true;
  }
  int64_t next_piece() {
    const std::scoped_lock lock(mutex_);
    while (next_ < file_.pieces() && file_.is_full(next_)) ++next_;
    return next_ < file_.pieces() && !whole_file_connection_ ? next_++ : -1;
  }

  void work() {
    Connection connection(policy_);
    for (int64_t piece; !stopping_ && (piece = next_piece()) >= 0;) {
      const auto have = [&] { return whole_file_connection_ ? file_.contiguous_bytes() : file_.bytes_present(piece); };
      const auto complete = [&] { return whole_file_connection_ ? have() == file_.bytes() : file_.is_full(piece); };
      int64_t farthest = 0;
      for (int tries = 0; !complete();) {
        Head head;
        const Failure failure = fetch(connection, piece, head);
        if (stopping_ || (whole_file_connection_ && whole_file_connection_ != &connection)) return;
        if (complete()) break;
        if (have() > farthest) tries = 0;
        farthest = std::max(farthest, have());
        const bool refused = failure.reason.empty() && head.status != kOk && head.status != kPart;
        if (refused && !is_busy(head.status)) refused_(head);
        if (!failure.reason.empty() && !failure.retryable) throw_error("{}: {}", what_.name, failure.reason);
        if (++tries == policy_.tries) {
          if (refused) refused_(head);
          throw_error("{}: {} ({} tries); the downloaded part is kept, run the command again to resume", what_.name,
                      failure.reason.empty() ? "the response ends too early" : failure.reason, tries);
        }
        wait_to_retry(policy_, tries - 1, head);
        if (stopping_) return;
      }
    }
  }

  Failure fetch(Connection& connection, int64_t piece, Head& head) {
    const bool whole = whole_file_connection_ == &connection;
    int64_t at = whole ? 0 : file_.start_of(piece) + file_.bytes_present(piece), noted = at;
    int64_t end = whole ? file_.bytes() : file_.end_of(piece);
    const Request request = whole ? Request{what_.url} : Request{what_.url, at, end - 1, what_.etag};
    const auto begin = [&](const Head& answer) {
      head = answer;
      if (head.status == kPart) {
        const ContentRange range = parse_content_range(head.header("content-range"));
        if (range.first != at || range.total != file_.bytes())
          throw_error("{}: requested bytes from {} on of {}, the server sent \"{}\"", what_.name, at, file_.bytes(),
                      core::printable(head.header("content-range")));
        return true;
      }
      if (head.status != kOk) return false;
      if (file_.pieces() == 1 && at == 0) return check_length(head);
      const std::scoped_lock lock(mutex_);
      if (whole_file_connection_ && whole_file_connection_ != &connection) return false;
      check_length(head);
      whole_file_connection_ = &connection;
      file_.discard_progress();
      at = noted = 0;
      end = file_.bytes();
      return true;
    };
    const auto body = [&](std::span<const char> bytes) {
      while (!bytes.empty() && at < end) {
        const int64_t place = at / options_.piece_bytes;
        const auto now =
            bytes.first(static_cast<size_t>(std::min<int64_t>(std::ssize(bytes), file_.end_of(place) - at)));
        const std::scoped_lock lock(mutex_);
        if (stopping_ || (whole_file_connection_ && whole_file_connection_ != &connection)) return false;
        file_.write(at, now);
        at += std::ssize(now);
        bytes = bytes.subspan(now.size());
        if (at - noted >= kNoteEvery || at == file_.end_of(place)) {
          file_.note_progress(place);
          noted = at;
        }
      }
      return at < end; // cuts bytes beyond the expected length
    };
    std::exception_ptr thrown;
    const auto guarded = [&](const auto& function) {
      return [&](const auto& argument) {
        try {
          return function(argument);
        } catch (...) {
          thrown = std::current_exception();
          return false;
        }
      };
    };
    const Failure failure = connection.ask(request, guarded(begin), guarded(body));
    if (thrown) std::rethrow_exception(thrown);
    if (at > noted) file_.note_progress((at - 1) / options_.piece_bytes);
    return failure;
  }

  bool check_length(const Head& head) const {
    const std::string length = head.header("content-length");
    if (!length.empty() && length != std::to_string(file_.bytes()))
      throw_error("{}: is {} bytes long, but the server sends {}", what_.name, file_.bytes(), core::printable(length));
    return true;
  }

  const Download& what_;
  const std::atomic<bool>* const cancel_; // the asker's flag
  RequestPolicy policy_;                  // cancelled by stopping_ instead
  IncompleteFile& file_;
  const DownloadOptions& options_;
  const std::function<void(const Head&)>& refused_;
  std::mutex mutex_; // guards the members below and writes to the file
  std::condition_variable changed_;
  std::exception_ptr problem_;
  std::atomic<bool> stopping_ = false;
  std::atomic<const Connection*> whole_file_connection_ = nullptr;
  int64_t next_ = 0;
  int running_ = 0;
  std::vector<std::jthread> workers_;
};

} // namespace

void download(const Download& what, const RequestPolicy& policy, IncompleteFile& file, const DownloadOptions& options,
              const std::function<void(const Head&)>& refused) {
  Hash hash;
  const bool hashed = !what.sha256.empty();
  const auto report = [&] {
    if (options.progress) options.progress(file.total_bytes_present(), file.bytes());
  };
  {
    constexpr int kPollMilliseconds = 100;
    Fetch fetch(what, policy, file, options, refused);
    for (bool behind = true; fetch.wait(behind ? 1 : kPollMilliseconds);) {
      report();
      if (hashed && !fetch.whole()) hash.follow(file, file.contiguous_bytes());
      behind = hashed && !fetch.whole() && hash.at() < file.contiguous_bytes();
    }
    if (fetch.whole()) hash = Hash();
  }
  policy.throw_if_cancelled(what.name, "; run the command again to resume");
  if (file.contiguous_bytes() != file.bytes()) throw_error("{}: bytes are missing", what.name);
  while (hashed && hash.at() < file.bytes()) {
    hash.follow(file, file.bytes());
    report();
    policy.throw_if_cancelled(what.name);
  }
  if (!hashed) return;
  if (const std::string found = hash.text(); found != what.sha256) {
    file.remove();
    throw_error("{}: the SHA-256 is {}, expected {}; the file was removed, try again", what.name, found, what.sha256);
  }
}

} // namespace ridge::hub
