#include "core/parallel/processes.h"

#include "core/error.h"

#include <algorithm>
#include <mutex>

namespace ridge::core {
namespace {

class ProcessCommunicator final : public Communicator {
 public:
  ProcessCommunicator(std::vector<std::unique_ptr<Connection>> values, int rank, int ranks)
      : values_(std::move(values)), rank_(rank), ranks_(ranks) {}

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
        if (elements < 0 || elements > std::ssize(whole)) throw_error("rank {} sent too much data", from);
        received_.resize(static_cast<size_t>(elements));
        values_[from]->receive_values(std::span(received_));
        place_part(received_, rows, at, whole);
      }
      for (int to = 1; to < ranks_; ++to) values_[to]->send_values(std::span<const float>(whole));
    });
  }

  void fail(const std::string& why) override {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = why;
    for (const auto& connection : values_)
      if (connection) connection->close();
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
  std::vector<float> received_;
  mutable std::mutex mutex_;
  std::string failure_;
};

enum class Command : uint8_t {
  forward,
  copy_cache,
  mark_state,
  restore_mark,
  save_state,
  load_state,
  save_blocks,
  load_blocks,
  set_adapters
};

template <typename T>
void send_list(Connection& to, std::span<const T> list) {
  to.send_value(static_cast<uint64_t>(list.size()));
  to.send_values(list);
}

template <typename T>
std::vector<T> receive_list(Connection& from) {
  constexpr uint64_t kMax = uint64_t{1} << 40; // bytes
  const auto count = from.receive_value<uint64_t>();
  if (count > kMax / sizeof(T)) throw_error("rank 0 sent a list of {} elements", count);
  std::vector<T> list(count);
  from.receive_values(std::span(list));
  return list;
}

struct Facts {
  int64_t saved_floats, block_bytes;
  double memory_bytes;
};

class RemoteExecutor final : public Executor {
 public:
  RemoteExecutor(std::unique_ptr<Connection> commands, const ExecutorConfig& config)
      : commands_(std::move(commands)), config_(config) {
    finish();
    facts_ = commands_->receive_value<Facts>();
  }

  void forward(const Batch& batch) override {
    begin(Command::forward);
    send_list(*commands_, batch.tokens);
    send_list(*commands_, batch.positions);
    send_list(*commands_, batch.streams);
    send_list(*commands_, batch.outputs);
    send_list(*commands_, batch.input);
    send_list(*commands_, batch.rows);
    send_list(*commands_, batch.axes);
    send_list(*commands_, batch.block_ends);
    finish();
  }
  std::span<const float> logits(int64_t) override { throw std::logic_error("only the first rank has logits"); }
  int64_t saved_floats() const override { return facts_.saved_floats; }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    begin(Command::save_state);
    commands_->send_value(stream);
    commands_->send_value(position);
    finish();
    commands_->receive_values(state);
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    begin(Command::load_state);
    commands_->send_value(stream);
    commands_->send_value(position);
    send_list(*commands_, state);
    finish();
  }
  void mark_state(int32_t stream) override {
    begin(Command::mark_state);
    commands_->send_value(stream);
    finish();
  }
  void restore_mark() override {
    begin(Command::restore_mark);
    finish();
  }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    begin(Command::copy_cache);
    commands_->send_value(from);
    commands_->send_value(to);
    commands_->send_value(tokens);
    finish();
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    begin(Command::set_adapters);
    commands_->send_value(stream);
    send_list(*commands_, uses);
    finish();
  }
  int64_t block_bytes() const override { return facts_.block_bytes; }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    begin_blocks(Command::save_blocks, stream, first, blocks.size());
    finish();
    for (std::byte* block : blocks) commands_->receive({block, static_cast<size_t>(facts_.block_bytes)});
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    begin_blocks(Command::load_blocks, stream, first, blocks.size());
    for (const std::byte* block : blocks) commands_->send({block, static_cast<size_t>(facts_.block_bytes)});
    finish();
  }
  const ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return "another process"; }
  double memory_bytes() const override { return facts_.memory_bytes; }

 private:
  void begin(Command command) { commands_->send_value(command); }
  void begin_blocks(Command command, int32_t stream, int64_t first, size_t count) {
    begin(command);
    commands_->send_value(stream);
    commands_->send_value(first);
    commands_->send_value(static_cast<uint64_t>(count));
  }
  void finish() {
    if (const std::string problem = commands_->receive_text(); !problem.empty()) throw Error(problem);
  }

  const std::unique_ptr<Connection> commands_;
  const ExecutorConfig config_;
  Facts facts_ = {};
};

void run_command(Executor& executor, Connection& from) {
  std::vector<float> state;
  std::vector<std::byte> bytes;
  std::vector<std::byte*> blocks;
  const auto command = from.receive_value<Command>();
  const auto receive_blocks = [&] {
    const auto count = from.receive_value<uint64_t>();
    const auto each = static_cast<size_t>(executor.block_bytes());
    if (count > static_cast<uint64_t>(executor.config().context)) throw_error("rank 0 requested {} blocks", count);
    bytes.resize(count * each);
    for (size_t i = 0; i < count; ++i) blocks.push_back(bytes.data() + i * each);
  };
  std::string problem;
  const auto run = [&](auto&& work) {
    try {
      work();
    } catch (const std::exception& error) {
      problem = error.what();
    }
  };
  switch (command) {
  case Command::forward: {
    const auto tokens = receive_list<int32_t>(from), positions = receive_list<int32_t>(from),
               streams = receive_list<int32_t>(from), outputs = receive_list<int32_t>(from);
    const auto input = receive_list<float>(from), rows = receive_list<float>(from);
    const auto axes = receive_list<int32_t>(from), block_ends = receive_list<int32_t>(from);
    Batch batch{tokens, positions, streams, outputs, input};
    batch.rows = rows;
    batch.axes = axes;
    batch.block_ends = block_ends;
    run([&] { executor.forward(batch); });
    break;
  }
  case Command::copy_cache: {
    const auto source = from.receive_value<int32_t>(), to = from.receive_value<int32_t>();
    const auto tokens = from.receive_value<int64_t>();
    run([&] { executor.copy_cache(source, to, tokens); });
    break;
  }
  case Command::set_adapters: {
    const auto stream = from.receive_value<int32_t>();
    const auto uses = receive_list<AdapterUse>(from);
    run([&] { executor.set_adapters(stream, uses); });
    break;
  }
  case Command::mark_state: {
    const auto stream = from.receive_value<int32_t>();
    run([&] { executor.mark_state(stream); });
    break;
  }
  case Command::restore_mark: run([&] { executor.restore_mark(); }); break;
  case Command::save_state:
  case Command::load_state: {
    const auto stream = from.receive_value<int32_t>();
    const auto position = from.receive_value<int64_t>();
    const bool loads = command == Command::load_state;
    state = loads ? receive_list<float>(from) : std::vector<float>(executor.saved_floats());
    run([&] { loads ? executor.load_state(stream, state, position) : executor.save_state(stream, state, position); });
    break;
  }
  case Command::save_blocks:
  case Command::load_blocks: {
    const auto stream = from.receive_value<int32_t>();
    const auto first = from.receive_value<int64_t>();
    receive_blocks();
    if (command == Command::load_blocks) from.receive(bytes);
    run([&] {
      if (command == Command::save_blocks) return executor.save_blocks(stream, first, blocks);
      executor.load_blocks(stream, first, std::vector<const std::byte*>(blocks.begin(), blocks.end()));
    });
    break;
  }
  default: throw_error("rank 0 sent the unknown command {}", static_cast<int>(command));
  }
  from.send_text(problem);
  if (!problem.empty()) return;
  if (command == Command::save_state) from.send_values(std::span<const float>(state));
  if (command == Command::save_blocks) from.send(bytes);
}

} // namespace

std::unique_ptr<Communicator> make_process_communicator(std::vector<std::unique_ptr<Connection>> values, int rank,
                                                        int ranks) {
  return std::make_unique<ProcessCommunicator>(std::move(values), rank, ranks);
}

std::unique_ptr<Executor> make_remote_executor(std::unique_ptr<Connection> commands, const ExecutorConfig& config) {
  return std::make_unique<RemoteExecutor>(std::move(commands), config);
}

void serve_rank(Executor& executor, Connection& commands) {
  commands.send_text(""); // ready
  commands.send_value(Facts{executor.saved_floats(), executor.block_bytes(), executor.memory_bytes()});
  while (commands.wait()) run_command(executor, commands);
}

} // namespace ridge::core
