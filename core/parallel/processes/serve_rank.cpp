// A rank that evaluates what rank 0, in another process, says.
#include "core/parallel/processes/commands.h"
#include "core/parallel/processes/processes.h"
#include "core/sampler.h"

#include <algorithm>
#include <optional>

namespace ridge::core {
namespace {

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

Sampler receive_sampler(Connection& from) {
  const auto facts = from.receive_value<SamplerFacts>();
  const auto sparse = receive_list<TokenCount>(from);
  const auto ring = receive_list<int32_t>(from);
  constexpr uint64_t kMostTokens = 1 << 24;
  if (facts.vocab == 0 || facts.vocab > kMostTokens) throw_error("rank 0 samples of {} tokens", facts.vocab);
  std::vector<int32_t> counts(facts.vocab);
  for (const TokenCount& one : sparse)
    if (one.token >= 0 && static_cast<uint64_t>(one.token) < facts.vocab) counts[one.token] = one.count;
  SamplerParams p;
  p.temp = facts.temp, p.top_p = facts.top_p, p.min_p = facts.min_p;
  p.repeat_penalty = facts.repeat_penalty, p.presence_penalty = facts.presence_penalty;
  p.frequency_penalty = facts.frequency_penalty, p.top_k = facts.top_k, p.repeat_last_n = facts.repeat_last_n;
  p.min_keep = facts.min_keep, p.seed = static_cast<int64_t>(facts.seed);
  Sampler sampler(p, std::ssize(counts));
  sampler.restore({counts, ring, facts.oldest}, facts.draws);
  return sampler;
}

// The first `count` of the last batch.
std::vector<float> result_rows(Executor& executor, int64_t count) {
  const int64_t most = std::max(executor.config().max_batch, executor.config().max_outputs);
  if (count < 1 || count > most) throw_error("rank 0 requested {} rows", count);
  std::vector<float> rows;
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const float> row = executor.logits(i);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void run_command(Executor& executor, Connection& from) {
  std::vector<float> state, rows;
  std::vector<int32_t> chosen;
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
  case Command::submit: {
    const ReceivedBatch batch(from);
    const auto chain = from.receive_value<Chain>();
    const auto guesses = from.receive_value<int64_t>();
    const auto count = from.receive_value<uint64_t>();
    if (count > static_cast<uint64_t>(executor.config().max_outputs)) throw_error("rank 0 chooses {} tokens", count);
    if (chain > Chain::resume || batch.tokens.empty()) throw_error("rank 0 sent an unknown batch");
    std::vector<std::optional<Sampler>> samplers;
    std::vector<const Sampler*> all;
    for (uint64_t i = 0; i < count; ++i)
      samplers.push_back(from.receive_value<uint8_t>() != 0 ? std::optional(receive_sampler(from)) : std::nullopt);
    for (const std::optional<Sampler>& sampler : samplers) all.push_back(sampler ? &*sampler : nullptr);
    run([&] {
      executor.submit(batch.view(), {all, chain, guesses});
      if (!waits_at_once(batch.view(), chain)) return;
      const std::span<const int32_t> tokens = executor.wait();
      if (chain != Chain::none) return;
      chosen.assign(tokens.begin(), tokens.end());
      chosen.resize(count);
    });
    break;
  }
  case Command::wait: run([&] { executor.wait(); }); break;
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
  case Command::result_rows: {
    const auto count = from.receive_value<int64_t>();
    run([&] { rows = result_rows(executor, count); });
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
  if (command == Command::submit) from.send_values(std::span<const int32_t>(chosen));
  if (command == Command::result_rows) {
    from.send_value(static_cast<uint64_t>(rows.size()));
    from.send_values(std::span<const float>(rows));
  }
}

} // namespace

void serve_rank(Executor& executor, Connection& commands) {
  commands.send_text(""); // ready
  commands.send_value(
      RankFigures{executor.saved_floats(), executor.block_bytes(), executor.memory_bytes(), executor.can_choose({})});
  while (commands.wait()) run_command(executor, commands);
}

} // namespace ridge::core
