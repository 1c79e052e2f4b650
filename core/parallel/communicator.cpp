#include "core/parallel/communicator.h"

#include "core/error.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace ridge::core {
namespace {

// Each call meets twice: when all values are there, and when all were read.
class SharedBarrier {
 public:
  explicit SharedBarrier(int ranks) : parts(static_cast<size_t>(ranks)) {}

  bool arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == std::ssize(parts)) {
      arrived_ = 0;
      ++round_;
      all_.notify_all();
    }
    all_.wait(lock, [&] { return round_ != round || !failure_.empty(); });
    return failure_.empty();
  }
  void fail(const std::string& why) {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) failure_ = why;
    all_.notify_all();
  }
  std::string failure() const {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

  struct Part {
    std::span<const float> values;
    int64_t first = 0; // column
  };
  std::vector<Part> parts; // by rank

 private:
  mutable std::mutex mutex_;
  std::condition_variable all_;
  int64_t arrived_ = 0, round_ = 0;
  std::string failure_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<SharedBarrier> barrier, int rank) : barrier_(std::move(barrier)), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(barrier_->parts.size()); }

  void all_reduce(std::span<float> values) override {
    barrier_->parts[rank_] = {values};
    if (!barrier_->arrive_and_wait()) return;
    sum_.assign(values.size(), 0);
    for (const SharedBarrier::Part& part : barrier_->parts)
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += part.values[i];
    if (barrier_->arrive_and_wait()) std::ranges::copy(sum_, values.begin());
  }

  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    barrier_->parts[rank_] = {part, first};
    if (!barrier_->arrive_and_wait()) return;
    for (const SharedBarrier::Part& from : barrier_->parts) place_part(from.values, rows, from.first, whole);
    barrier_->arrive_and_wait();
  }

  void fail(const std::string& why) override { barrier_->fail(why); }
  void check() const override {
    if (const std::string why = barrier_->failure(); !why.empty()) throw Error(why);
  }

 private:
  const std::shared_ptr<SharedBarrier> barrier_;
  const int rank_;
  std::vector<float> sum_;
};

} // namespace

void place_part(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) {
  if (rows == 0) return;
  const int64_t columns = std::ssize(part) / rows, width = std::ssize(whole) / rows;
  if (first < 0 || first + columns > width) throw_error("a rank sends a part that lies outside of the whole");
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(part.begin() + row * columns, columns, whole.begin() + row * width + first);
}

// A float holds a byte exactly. The first two are the text's size.
std::vector<std::string> gather_texts(Communicator& ranks, std::string_view own, size_t most) {
  const size_t each = most + 2, count = static_cast<size_t>(ranks.ranks());
  const std::string_view text = own.substr(0, most);
  std::vector<float> part(each), whole(each * count);
  part[0] = static_cast<float>(text.size() / 256);
  part[1] = static_cast<float>(text.size() % 256);
  for (size_t i = 0; i < text.size(); ++i) part[i + 2] = static_cast<float>(static_cast<unsigned char>(text[i]));
  ranks.all_gather(part, 1, static_cast<int64_t>(each) * ranks.rank(), whole);
  ranks.check();
  std::vector<std::string> texts(count);
  for (size_t rank = 0; rank < count; ++rank) {
    const std::span<const float> from = std::span(whole).subspan(rank * each, each);
    const auto size = static_cast<size_t>(from[0]) * 256 + static_cast<size_t>(from[1]);
    for (size_t i = 0; i < std::min(size, most); ++i)
      texts[rank] += static_cast<char>(static_cast<unsigned char>(from[i + 2]));
  }
  return texts;
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks) {
  const auto barrier = std::make_shared<SharedBarrier>(ranks);
  std::vector<std::unique_ptr<Communicator>> made;
  for (int rank = 0; rank < ranks; ++rank) made.push_back(std::make_unique<ThreadCommunicator>(barrier, rank));
  return made;
}

} // namespace ridge::core
