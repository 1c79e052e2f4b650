#include "core/split.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <future>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>

namespace ridge::core {
namespace {

Program part_of(const Program& whole, std::vector<Op> ops) {
  Program part;
  part.architecture = whole.architecture;
  part.label = whole.label;
  part.vocab = whole.vocab;
  part.trained_context = whole.trained_context;
  part.values = whole.values;
  part.rope_tables = whole.rope_tables;
  part.adapters = whole.adapters;
  part.has_token_coordinates = whole.has_token_coordinates;
  part.row_width = whole.row_width;
  part.ops = std::move(ops);
  std::vector<WeightId> weight_of(whole.weights.size(), -1);
  std::vector<int32_t> cache_of(whole.kv_layers.size(), -1), state_of(whole.states.size(), -1);
  const auto kept = [](auto& id, auto& map, const auto& from, auto& to) {
    if (map[id] < 0) {
      map[id] = static_cast<int32_t>(to.size());
      to.push_back(from[id]);
    }
    id = map[id];
  };
  for (Op& op : part.ops) {
    for (WeightId& id : op.weights) kept(id, weight_of, whole.weights, part.weights);
    for (int32_t* layer : {cache_layer(op.params), second_cache_layer(op.params)})
      if (layer) kept(*layer, cache_of, whole.kv_layers, part.kv_layers);
    if (int32_t* state = state_layer(op.params)) kept(*state, state_of, whole.states, part.states);
  }
  return part;
}

// Finds ops before the layers whose results `ops` need.
std::vector<Op> needed_before_layers(const Program& program, std::span<const Op> ops) {
  std::set<ValueId> wanted;
  for (const Op& op : ops) wanted.insert(op.inputs.begin(), op.inputs.end());
  std::vector<Op> needed;
  const auto layered = std::ranges::find_if(program.ops, [](const Op& op) { return op.layer >= 0; });
  for (auto op = layered; op != program.ops.begin();) {
    --op;
    if (std::ranges::none_of(op->outputs, [&](ValueId id) { return wanted.contains(id); })) continue;
    wanted.insert(op->inputs.begin(), op->inputs.end());
    needed.insert(needed.begin(), *op);
  }
  return needed;
}

// The batch in pieces of kPieceTokens, or nothing if it has to be evaluated as a whole.
constexpr size_t kPieceTokens = 512;
struct Piece {
  Batch batch;
  std::vector<int32_t> outputs;
};
std::vector<Piece> pieces_of(const Batch& batch) {
  const size_t tokens = batch.tokens.size(), last = (tokens - 1) / kPieceTokens * kPieceTokens;
  // Logits are only kept of the last piece; rows of an input or a block of tokens stay together.
  const bool ends_late = std::ranges::all_of(batch.outputs, [&](int32_t i) { return i >= static_cast<int64_t>(last); });
  if (last == 0 || !ends_late || !batch.block_ends.empty() || !batch.input.empty() || batch.input_taken) return {};
  std::vector<Piece> pieces;
  for (size_t first = 0; first < tokens; first += kPieceTokens) {
    const size_t count = std::min(kPieceTokens, tokens - first);
    const auto part = [&](auto span, size_t each) {
      return span.empty() ? span : span.subspan(first * each, count * each);
    };
    Piece piece{.batch = batch};
    piece.batch.tokens = part(batch.tokens, 1);
    piece.batch.positions = part(batch.positions, 1);
    piece.batch.streams = part(batch.streams, 1);
    piece.batch.axes = part(batch.axes, kPlaceAxes);
    if (first == last)
      for (const int32_t output : batch.outputs) piece.outputs.push_back(output - static_cast<int32_t>(first));
    pieces.push_back(std::move(piece));
  }
  for (Piece& piece : pieces) piece.batch.outputs = piece.outputs;
  return pieces;
}

// Runs parts of a Program in turn. Each hands the rows of its output to the next.
class StagedExecutor final : public Executor {
 public:
  StagedExecutor(std::vector<Program> parts, const ExecutorConfig& config, const MakeStage& make, bool concurrent)
      : parts_(std::move(parts)), config_(wide_where_needed(config)),
        in_pieces_(concurrent && !sees_ahead(parts_[0]) && drafting_part() == parts_.end()) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const bool is_last = i + 1 == parts_.size();
      stages_.push_back(make(parts_[i], is_last ? config_ : config_of_part(parts_[i], config_), static_cast<int>(i)));
      description_ += fmt::format("{}{}", i == 0 ? "" : " + ", stages_[i]->description());
    }
  }

  void forward(const Batch& batch) override {
    if (in_pieces_) {
      check_batch(parts_[0], config_, batch);
      if (const std::vector<Piece> pieces = pieces_of(batch); !pieces.empty()) return forward_in_pieces(pieces);
    }
    Batch rest = batch;
    for (size_t i = 0; i < stages_.size(); ++i) {
      stages_[i]->forward(rest);
      if (i + 1 < stages_.size()) rest.input = rows_of(i, batch);
    }
  }
  std::span<const float> logits(int64_t i) override { return stages_.back()->logits(i); }
  std::span<const float> hidden() override {
    const auto part = drafting_part();
    return part == parts_.end() ? std::span<const float>() : stages_[part - parts_.begin()]->hidden();
  }
  bool can_resume_at(int32_t stream, int64_t position) const override {
    return std::ranges::all_of(stages_, [&](const auto& stage) { return stage->can_resume_at(stream, position); });
  }
  int64_t saved_floats() const override { return sum_of(&Executor::saved_floats); }
  void save_state(int32_t stream, std::span<float> state, int64_t position) override {
    for (const auto& stage : stages_) {
      const auto own = static_cast<size_t>(stage->saved_floats());
      stage->save_state(stream, state.first(own), position);
      state = state.subspan(own);
    }
  }
  void load_state(int32_t stream, std::span<const float> state, int64_t position) override {
    for (const auto& stage : stages_) {
      const auto own = state.empty() ? size_t{0} : static_cast<size_t>(stage->saved_floats());
      stage->load_state(stream, state.first(own), position);
      state = state.subspan(own);
    }
  }
  void copy_cache(int32_t from, int32_t to, int64_t tokens) override {
    for (const auto& stage : stages_) stage->copy_cache(from, to, tokens);
  }
  void set_adapters(int32_t stream, std::span<const AdapterUse> uses) override {
    for (const auto& stage : stages_) stage->set_adapters(stream, uses);
  }
  std::string block_layout() const override {
    std::string whole;
    for (size_t i = 0; i < stages_.size(); ++i) {
      const std::string layout = stages_[i]->block_layout();
      if (layout.empty()) return {};
      whole += i + 1 == stages_.size() ? layout : fmt::format("{} of {} layers, ", layout, parts_[i].kv_layers.size());
    }
    return whole;
  }
  int64_t block_bytes() const override { return sum_of(&Executor::block_bytes); }
  void save_blocks(int32_t stream, int64_t first, std::span<std::byte* const> blocks) override {
    each_with_blocks(blocks, [&](Executor& stage, const auto& own) { stage.save_blocks(stream, first, own); });
  }
  void load_blocks(int32_t stream, int64_t first, std::span<const std::byte* const> blocks) override {
    each_with_blocks(blocks, [&](Executor& stage, const auto& own) { stage.load_blocks(stream, first, own); });
  }
  void mark_state(int32_t stream) override {
    for (const auto& stage : stages_) stage->mark_state(stream);
  }
  void restore_mark() override {
    for (const auto& stage : stages_) stage->restore_mark();
  }
  const ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return description_; }
  double memory_bytes() const override { return sum_of(&Executor::memory_bytes); }

 private:
  std::vector<Program>::const_iterator drafting_part() const {
    return std::ranges::find_if(parts_, [](const Program& part) { return part.hidden >= 0; });
  }
  // All parts are wide if one needs it.
  ExecutorConfig wide_where_needed(ExecutorConfig config) const {
    config.wide |= std::ranges::any_of(parts_, amplifies_errors);
    return config;
  }
  template <typename T>
  T sum_of(T (Executor::*of)() const) const {
    T sum = 0;
    for (const auto& stage : stages_) sum += (stage.get()->*of)();
    return sum;
  }
  template <typename Byte, typename Run>
  void each_with_blocks(std::span<Byte* const> blocks, Run&& run) {
    std::vector<Byte*> own(blocks.begin(), blocks.end());
    for (const auto& stage : stages_) {
      run(*stage, own);
      for (Byte*& block : own) block += stage->block_bytes();
    }
  }

  // The rows of a part's output after its forward(), valid until the next one.
  std::span<const float> rows_of(size_t part, const Batch& batch) {
    const ValueInfo& handed_on = parts_[part].values[parts_[part].output];
    const size_t rows = handed_on.gathered ? batch.outputs.size() : batch.tokens.size();
    if (rows == 0) return {};
    const std::span<const float> first = stages_[part]->logits(0);
    return {first.data(), rows * first.size()};
  }

  // Each stage has a thread, which evaluates a piece while the next stage evaluates the piece before.
  void forward_in_pieces(const std::vector<Piece>& pieces) {
    using Rows = std::vector<float>;
    std::vector<std::vector<std::promise<Rows>>> handed_on(stages_.size() - 1);
    for (auto& to_next : handed_on) to_next.resize(pieces.size());
    std::exception_ptr failure;
    const auto run = [&](size_t i) {
      const bool is_last = i + 1 == stages_.size();
      size_t done = 0;
      try {
        for (; done < pieces.size(); ++done) {
          Batch batch = pieces[done].batch;
          const Rows input = i == 0 ? Rows() : handed_on[i - 1][done].get_future().get();
          batch.input = input;
          stages_[i]->forward(batch);
          if (is_last) continue;
          const std::span<const float> rows = rows_of(i, batch);
          handed_on[i][done].set_value(Rows(rows.begin(), rows.end()));
        }
      } catch (...) {
        if (is_last) failure = std::current_exception();
        for (; !is_last && done < pieces.size(); ++done) handed_on[i][done].set_exception(std::current_exception());
      }
    };
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < stages_.size(); ++i) others.emplace_back(run, i);
      run(0);
    }
    if (failure) std::rethrow_exception(failure);
  }

  const std::vector<Program> parts_; // the executors refer to them
  const ExecutorConfig config_;
  const bool in_pieces_; // rows for draft heads are only kept of the last piece
  std::vector<std::unique_ptr<Executor>> stages_;
  std::string description_;
};

} // namespace

int32_t layer_count(const Program& program) {
  int32_t count = 0;
  for (const Op& op : program.ops) count = std::max(count, op.layer + 1);
  return count;
}

int32_t next_cut(const Program& program, int32_t layer) {
  struct Span {
    int32_t first = std::numeric_limits<int32_t>::max(), last = 0; // layers
    void add(int32_t at) { first = std::min(first, at), last = std::max(last, at); }
  };
  std::vector<Span> together(program.kv_layers.size() + program.values.size());
  std::vector<int32_t> made(program.values.size(), -1);
  for (int32_t reached = -1; const Op& op : program.ops) {
    OpParams params = op.params;
    for (const int32_t* cache : {cache_layer(params), second_cache_layer(params)})
      if (cache) together[*cache].add(op.layer);
    reached = std::max(reached, op.layer);
    const int32_t at = op.layer < 0 && reached >= 0 ? reached + 1 : op.layer;
    for (const ValueId id : op.outputs) made[id] = at;
    for (const auto* ids : {&op.inputs, &op.outputs})
      for (const ValueId id : *ids) {
        Span& span = together[program.kv_layers.size() + id];
        if (program.values[id].kind == ValueKind::i32)
          span.add(op.layer);
        else if (made[id] >= 0 && at > made[id] + 1) // crosses a layer beside the residual stream
          span.add(made[id] + 1), span.add(at);
      }
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (const Span& span : together)
      if (span.first < layer && layer <= span.last) layer = span.last + 1, moved = true;
  }
  return layer;
}

SplitProgram split_program(const Program& program, int32_t layer) {
  const int32_t layers = layer_count(program);
  if (layer < 1 || layer > layers || next_cut(program, layer) != layer)
    throw std::logic_error("Program: no such place to split");
  // Back begins with the first op of `layer`; the output begins after the last layer.
  const auto is_back = [&](const Op& op) { return op.layer == layer; };
  auto cut = std::ranges::find_if(program.ops, is_back);
  if (layer == layers)
    cut = std::ranges::find_if(program.ops.rbegin(), program.ops.rend(), [&](const Op& op) {
            return op.layer == layers - 1;
          }).base();
  std::vector<Op> back = needed_before_layers(program, {cut, program.ops.end()});
  back.insert(back.end(), cut, program.ops.end());
  SplitProgram parts = {part_of(program, {program.ops.begin(), cut}), part_of(program, std::move(back))};

  std::set<ValueId> crossing, computed;
  for (const Op& op : parts.back.ops) {
    crossing.insert(op.inputs.begin(), op.inputs.end());
    computed.insert(op.outputs.begin(), op.outputs.end());
  }
  for (const ValueId id : computed) crossing.erase(id);
  if (crossing.size() != 1 || program.values[*crossing.begin()].kind != ValueKind::f32)
    throw std::logic_error(
        fmt::format("Program: {} values cross into layer {}, expected the residual stream", crossing.size(), layer));
  parts.front.output = parts.back.input = *crossing.begin();
  parts.front.input = program.input;
  parts.back.logits = program.logits;
  (computed.contains(program.hidden) ? parts.back : parts.front).hidden = program.hidden;
  parts.back.output = program.output;
  parts.back.embeds = program.embeds;
  validate(parts.front);
  validate(parts.back);
  return parts;
}

namespace {

// Gives the first stage an equal share and leaves layers for the others.
int32_t first_stage_end(const Program& program, int stages) {
  const int32_t last = layer_count(program) + 2 - stages;
  if (last < 1) throw Error(fmt::format("{} stages, and no more layers for them", stages), Error::kUsage);
  const double share = program_cost(program, {}).weight_bytes / stages;
  double bytes = 0;
  int32_t layer = 0;
  for (const Op& op : program.ops) {
    if (op.layer > layer && bytes >= share) break;
    layer = std::max(layer, op.layer);
    bytes += op_cost(program, op, {}).weight_bytes;
  }
  const int32_t cut = next_cut(program, std::clamp(layer + 1, 1, last));
  if (cut > layer_count(program))
    throw Error("a model whose draft head takes rows of several layers cannot be cut into stages: --spec off",
                Error::kUsage);
  return cut;
}

} // namespace

ExecutorConfig config_of_part(const Program& part, ExecutorConfig config) {
  if (part.output >= 0 && !part.values[part.output].gathered)
    config.max_outputs = std::max(config.max_outputs, config.max_batch);
  return config;
}

std::vector<Program> pipeline_parts(const Program& program, int stages) {
  std::vector<Program> parts;
  Program rest = program;
  for (; stages > 1; --stages) {
    SplitProgram split = split_program(rest, first_stage_end(rest, stages));
    parts.push_back(std::move(split.front));
    rest = std::move(split.back);
  }
  parts.push_back(std::move(rest));
  return parts;
}

std::unique_ptr<Executor> make_pipeline_executor(const Program& program, const ExecutorConfig& config, int stages,
                                                 const MakeStage& make, bool concurrent) {
  if (stages == 1) return make(program, config, 0);
  return std::make_unique<StagedExecutor>(pipeline_parts(program, stages), config, make, concurrent);
}

std::unique_ptr<Executor> make_split_executor(SplitProgram parts, const ExecutorConfig& config,
                                              const MakeExecutor& make_front, const MakeExecutor& make_back) {
  std::vector<Program> both;
  both.push_back(std::move(parts.front));
  both.push_back(std::move(parts.back));
  const auto make = [&](const Program& part, const ExecutorConfig& own, int stage) {
    return (stage == 0 ? make_front : make_back)(part, own);
  };
  return std::make_unique<StagedExecutor>(std::move(both), config, make, false);
}

} // namespace ridge::core
