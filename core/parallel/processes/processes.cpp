#include "core/parallel/processes/processes.h"

#include "core/error.h"

#include <algorithm>
#include <mutex>

namespace ridge::core {
namespace {

using Told = std::function<void(const std::string&)>;

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(std::vector<std::unique_ptr<Connection>> values, int rank, int ranks, Told told)
      : values_(std::move(values)), rank_(rank), ranks_(ranks), told_(std::move(told)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void all_reduce(std::span<float> values) override {
    or_fail([&] {
      if (rank_ > 0) {
        hub().send_values(std::span<const float>(values));
        return hub().receive_values(values);
      }
      received_.resize(values.size());
      for (int from = 1; from < ranks_; ++from) {
        values_[from]->receive_values(std::span(received_));
        for (size_t i = 0; i < values.size(); ++i) values[i] += received_[i];
      }
      for (int to = 1; to < ranks_; ++to) values_[to]->send_values(std::span<const float>(values));
    });
  }

  void all_gather(std::span<const float> part, int64_t rows, int64_t first, std::span<float> whole) override {
    or_fail([&] {
      if (rank_ > 0) {
        hub().send_value(first);
        hub().send_value(std::ssize(part));
        hub().send_values(part);
        return hub().receive_values(whole);
      }
      place_part(part, rows, first, whole);
      for (int from = 1; from < ranks_; ++from) {
        const auto at = values_[from]->receive_value<int64_t>();
        const auto elements = values_[from]->receive_value<std::ptrdiff_t>();
        if (elements < 0 || elements > std::ssize(whole)) throw_error("rank {} sends more than there is", from);
        received_.resize(static_cast<size_t>(elements));
        values_[from]->receive_values(std::span(received_));
        place_part(received_, rows, at, whole);
      }
      for (int to = 1; to < ranks_; ++to) values_[to]->send_values(std::span<const float>(whole));
    });
  }

  void fail(const std::string& why) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!failure_.empty()) return;
      failure_ = why;
    }
    for (const auto& connection : values_)
      if (connection) connection->close(why);
    if (told_) told_(why);
  }
  void check() const override {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) throw Error(failure_);
  }

 private:
  Connection& hub() { return *values_[0]; }
  template <typename Work>
  void or_fail(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  const std::vector<std::unique_ptr<Connection>> values_; // rank 0: by rank; others: to rank 0
  const int rank_, ranks_;
  const Told told_;
  std::vector<float> received_;
  mutable std::mutex mutex_;
  std::string failure_;
};

} // namespace

std::unique_ptr<Communicator> make_process_communicator(std::vector<std::unique_ptr<Connection>> values, int rank,
                                                        int ranks, Told told) {
  return std::make_unique<ProcessCommunicator>(std::move(values), rank, ranks, std::move(told));
}

} // namespace ridge::core
