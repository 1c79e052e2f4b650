// Rank 0's side of a rank in another process.
#include "core/parallel/processes/commands.h"
#include "core/parallel/processes/processes.h"
#include "core/sampler.h"

#include <cstring>

namespace ridge::core {
namespace {

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

void add_sampler(Message& message, const Sampler& sampler) {
  const SamplerParams& p = sampler.params();
  const Sampler::Recent recent = sampler.recent();
  std::vector<TokenCount> counts;
  for (size_t token = 0; token < recent.counts.size(); ++token)
    if (recent.counts[token] != 0) counts.push_back({static_cast<int32_t>(token), recent.counts[token]});
  message.add(SamplerFacts{p.temp, p.top_p, p.min_p, p.repeat_penalty, p.presence_penalty, p.frequency_penalty, p.top_k,
                           p.repeat_last_n, p.min_keep, sampler.seed(), sampler.draws(), recent.oldest,
                           recent.counts.size()});
  message.add_list(std::span<const TokenCount>(counts)).add_list(recent.ring);
}

class RemoteExecutor final : public Executor {
 public:
  RemoteExecutor(std::shared_ptr<Connection> commands, const ExecutorConfig& config)
      : commands_(std::move(commands)), config_(config) {
    finish();
    facts_ = commands_->receive_value<RankFigures>();
  }
  ~RemoteExecutor() override { commands_->close(); }

  void submit(const Batch& batch, const Choosing& choosing) override {
    Message message(Command::submit);
    message.add_batch(batch).add(choosing.chain).add(choosing.guesses);
    message.add(static_cast<uint64_t>(choosing.samplers.size()));
    for (const Sampler* sampler : choosing.samplers) {
      message.add(static_cast<uint8_t>(sampler != nullptr));
      if (sampler) add_sampler(message, *sampler);
    }
    run(message);
    logits_.clear();
    outputs_ = std::ssize(batch.outputs);
    chosen_.resize(choosing.chain == Chain::none ? choosing.samplers.size() : 0);
    commands_->receive_values(std::span(chosen_));
    waits_ = choosing.chain != Chain::none && !waits_at_once(batch, choosing.chain);
  }
  // The tokens of a chain are the first rank's.
  std::span<const int32_t> wait() override {
    if (waits_) run(Message(Command::wait));
    waits_ = true;
    return chosen_;
  }
  std::span<const float> logits(int64_t i) override {
    if (i < 0 || i >= outputs_) throw std::logic_error("logits that the last forward() was not asked for");
    if (logits_.empty()) receive_rows(outputs_, logits_);
    const auto width = logits_.size() / static_cast<size_t>(outputs_);
    return std::span<const float>(logits_).subspan(static_cast<size_t>(i) * width, width);
  }
  std::shared_ptr<const float> copy_result_rows(int64_t count) override {
    const auto rows = std::make_shared<std::vector<float>>();
    receive_rows(count, *rows);
    return {rows, rows->data()};
  }

  bool can_choose(const SamplerParams&) const override { return facts_.can_choose; }
  bool can_chain(const SamplerParams&) const override { return facts_.can_choose; }

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
  void receive_rows(int64_t count, std::vector<float>& rows) {
    run(Message(Command::result_rows).add(count));
    rows = receive_list<float>(*commands_);
    if (rows.empty() || std::ssize(rows) % count != 0)
      throw_error("a rank sends {} floats for {} rows", rows.size(), count);
  }
  void finish() {
    if (const std::string problem = commands_->receive_text(); !problem.empty()) throw Error(problem);
  }

  const std::shared_ptr<Connection> commands_;
  const ExecutorConfig config_;
  RankFigures facts_ = {};
  int64_t outputs_ = 0;
  std::vector<float> logits_; // of all outputs, once asked for
  std::vector<int32_t> chosen_;
  bool waits_ = false; // the rank has not waited for its oldest batch
};

} // namespace

std::unique_ptr<Executor> make_remote_executor(std::shared_ptr<Connection> commands, const ExecutorConfig& config) {
  return std::make_unique<RemoteExecutor>(std::move(commands), config);
}

} // namespace ridge::core
