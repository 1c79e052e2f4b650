// Rank 0's side of a rank in another process, and that rank's.
#include "core/error.h"
#include "core/parallel/processes/processes.h"
#include "core/sampler.h"

#include <algorithm>
#include <cstring>

namespace ridge::core {
namespace {

enum class Command : uint8_t {
  forward,
  copy_cache,
  mark_state,
  restore_mark,
  save_state,
  load_state,
  save_blocks,
  load_blocks,
  set_adapters,
  start_decoding,
  next_token,
  decode_guesses,
  chosen_tokens,
  time_decode,
  profile
};

// Goes in one piece: many small ones cost a call each.
class Message {
 public:
  explicit Message(Command command) { add(command); }

  template <typename T>
  Message& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return append(&value, sizeof(value));
  }
  template <typename T>
  Message& add_list(std::span<const T> list) {
    add(static_cast<uint64_t>(list.size()));
    return append(list.data(), list.size_bytes());
  }
  Message& add_batch(const Batch& batch) {
    for (const std::span<const int32_t> list : {batch.tokens, batch.positions, batch.streams, batch.outputs})
      add_list(list);
    add_list(batch.input).add_list(batch.rows);
    return add_list(batch.axes).add_list(batch.block_ends);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Message& append(const void* from, size_t size) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + size);
    return *this;
  }

  std::vector<std::byte> bytes_;
};

template <typename T>
std::vector<T> receive_list(Connection& from) {
  constexpr uint64_t kMax = uint64_t{1} << 40; // bytes
  const auto count = from.receive_value<uint64_t>();
  if (count > kMax / sizeof(T)) throw_error("rank 0 sends a list of {} elements", count);
  std::vector<T> list(count);
  from.receive_values(std::span(list));
  return list;
}

struct ReceivedBatch {
  std::vector<int32_t> tokens, positions, streams, outputs;
  std::vector<float> input, rows;
  std::vector<int32_t> axes, block_ends;

  explicit ReceivedBatch(Connection& from) {
    for (auto* list : {&tokens, &positions, &streams, &outputs}) *list = receive_list<int32_t>(from);
    for (auto* list : {&input, &rows}) *list = receive_list<float>(from);
    for (auto* list : {&axes, &block_ends}) *list = receive_list<int32_t>(from);
  }
  Batch view() const {
    Batch batch{tokens, positions, streams, outputs, input};
    batch.rows = rows;
    batch.axes = axes;
    batch.block_ends = block_ends;
    return batch;
  }
};

// The parameters that executors sample by, and what a sampler remembers.
struct SamplerFacts {
  float temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  int32_t top_k, repeat_last_n, min_keep;
  uint64_t seed, draws, oldest;
};

void add_sampler(Message& message, const Sampler& sampler) {
  const SamplerParams& p = sampler.params();
  const Sampler::Recent recent = sampler.recent();
  message.add(SamplerFacts{p.temp, p.top_p, p.min_p, p.repeat_penalty, p.presence_penalty, p.frequency_penalty, p.top_k,
                           p.repeat_last_n, p.min_keep, sampler.seed(), sampler.draws(), recent.oldest});
  message.add_list(recent.counts).add_list(recent.ring);
}

Sampler receive_sampler(Connection& from) {
  const auto facts = from.receive_value<SamplerFacts>();
  const auto counts = receive_list<int32_t>(from), ring = receive_list<int32_t>(from);
  SamplerParams p;
  p.temp = facts.temp, p.top_p = facts.top_p, p.min_p = facts.min_p;
  p.repeat_penalty = facts.repeat_penalty, p.presence_penalty = facts.presence_penalty;
  p.frequency_penalty = facts.frequency_penalty, p.top_k = facts.top_k, p.repeat_last_n = facts.repeat_last_n;
  p.min_keep = facts.min_keep, p.seed = static_cast<int64_t>(facts.seed);
  Sampler sampler(p, std::ssize(counts));
  sampler.restore({counts, ring, facts.oldest}, facts.draws);
  return sampler;
}

struct Facts {
  int64_t saved_floats, block_bytes;
  double memory_bytes;
  bool can_choose;
};

class RemoteExecutor final : public Executor {
 public:
  RemoteExecutor(std::shared_ptr<Connection> commands, const ExecutorConfig& config)
      : commands_(std::move(commands)), config_(config) {
    finish();
    facts_ = commands_->receive_value<Facts>();
  }
  ~RemoteExecutor() override { commands_->close(); }

  void forward(const Batch& batch) override { run(Message(Command::forward).add_batch(batch)); }
  std::span<const float> logits(int64_t) override { throw std::logic_error("logits are the first rank's"); }

  bool can_choose(const SamplerParams&) const override { return facts_.can_choose; }
  bool start_decoding(const Sampler& sampler, int32_t position, int32_t stream) override {
    Message message(Command::start_decoding);
    add_sampler(message.add(position).add(stream), sampler);
    run(message);
    return true;
  }
  int32_t next_token(bool ahead) override {
    run(Message(Command::next_token).add(ahead));
    return 0; // the first rank's counts
  }
  void decode_guesses(std::span<const int32_t> tokens, int64_t guesses, int32_t position) override {
    run(Message(Command::decode_guesses).add(guesses).add(position).add_list(tokens));
  }
  std::span<const int32_t> chosen_tokens() override {
    run(Message(Command::chosen_tokens));
    return {};
  }

  int64_t saved_floats() const override { return facts_.saved_floats; }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    run(Message(Command::save_state).add(stream).add(position));
    commands_->receive_values(state);
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    run(Message(Command::load_state).add(stream).add(position).add_list(state));
  }
  void mark_state(int32_t stream) override { run(Message(Command::mark_state).add(stream)); }
  void restore_mark() override { run(Message(Command::restore_mark)); }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    run(Message(Command::copy_cache).add(from).add(to).add(tokens));
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    run(Message(Command::set_adapters).add(stream).add_list(uses));
  }
  int64_t block_bytes() const override { return facts_.block_bytes; }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    run(Message(Command::save_blocks).add(stream).add(first).add(static_cast<uint64_t>(blocks.size())));
    for (std::byte* block : blocks) commands_->receive({block, static_cast<size_t>(facts_.block_bytes)});
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    commands_->send(
        Message(Command::load_blocks).add(stream).add(first).add(static_cast<uint64_t>(blocks.size())).bytes());
    for (const std::byte* block : blocks) commands_->send({block, static_cast<size_t>(facts_.block_bytes)});
    finish();
  }
  const ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return "another process"; }
  double memory_bytes() const override { return facts_.memory_bytes; }

  std::vector<OpTime> profile(const Batch& batch, int repetitions) override {
    run(Message(Command::profile).add(repetitions).add_batch(batch));
    return {};
  }
  double time_decode(int64_t position, int64_t streams, int repetitions) override {
    run(Message(Command::time_decode).add(position).add(streams).add(repetitions));
    return 0;
  }

 private:
  void run(const Message& message) {
    commands_->send(message.bytes());
    finish();
  }
  void finish() {
    if (const std::string problem = commands_->receive_text(); !problem.empty()) throw Error(problem);
  }

  const std::shared_ptr<Connection> commands_;
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
    if (count > static_cast<uint64_t>(executor.config().context)) throw_error("rank 0 asks for {} blocks", count);
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
    const ReceivedBatch batch(from);
    run([&] { executor.forward(batch.view()); });
    break;
  }
  case Command::profile: {
    const auto repetitions = from.receive_value<int>();
    const ReceivedBatch batch(from);
    run([&] { executor.profile(batch.view(), repetitions); });
    break;
  }
  case Command::time_decode: {
    const auto position = from.receive_value<int64_t>(), streams = from.receive_value<int64_t>();
    const auto repetitions = from.receive_value<int>();
    run([&] { executor.time_decode(position, streams, repetitions); });
    break;
  }
  case Command::start_decoding: {
    const auto position = from.receive_value<int32_t>(), stream = from.receive_value<int32_t>();
    const Sampler sampler = receive_sampler(from);
    run([&] { executor.start_decoding(sampler, position, stream); });
    break;
  }
  case Command::next_token: {
    const bool ahead = from.receive_value<uint8_t>() != 0;
    run([&] { executor.next_token(ahead); });
    break;
  }
  case Command::decode_guesses: {
    const auto guesses = from.receive_value<int64_t>();
    const auto position = from.receive_value<int32_t>();
    const auto tokens = receive_list<int32_t>(from);
    run([&] { executor.decode_guesses(tokens, guesses, position); });
    break;
  }
  case Command::chosen_tokens: run([&] { executor.chosen_tokens(); }); break;
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
  default: throw_error("rank 0 sends command {}, which there is not", static_cast<int>(command));
  }
  from.send_text(problem);
  if (!problem.empty()) return;
  if (command == Command::save_state) from.send_values(std::span<const float>(state));
  if (command == Command::save_blocks) from.send(bytes);
}

} // namespace

std::unique_ptr<Executor> make_remote_executor(std::shared_ptr<Connection> commands, const ExecutorConfig& config) {
  return std::make_unique<RemoteExecutor>(std::move(commands), config);
}

void serve_rank(Executor& executor, Connection& commands) {
  commands.send_text(""); // ready
  commands.send_value(
      Facts{executor.saved_floats(), executor.block_bytes(), executor.memory_bytes(), executor.can_choose({})});
  while (commands.wait()) run_command(executor, commands);
}

} // namespace ridge::core
