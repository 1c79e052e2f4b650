// EAGLE-3: a draft head in its own file, trained for one model. Li et al. 2025, https://arxiv.org/abs/2503.01840
// It reads the inputs of three layers of the model, combined by a matrix that is the head's but runs at the end of the
// model's Program, so that one hidden row is passed as for other heads. One layer guesses the next token from a token
// and the previous row: attention reads both norms, concatenated, and adds to the row. Its output is the next guess's
// row, without the matrix.
// The head's vocabulary may be a subset (`d2t`); other tokens get kNever. Head and model may share the token table and
// the output matrix.
#include "core/error.h"
#include "models/blocks/blocks.h"
#include "models/blocks/draft_heads.h"

#include <array>
#include <cstring>

namespace ridge::models {

using core::OpKind;
using core::ValueId;

namespace {

constexpr float kNever = -1e30f;

} // namespace

bool is_eagle_head(const gguf::File& file) { return file.get_string("general.architecture", "") == "eagle3"; }

core::Weight Builder::lend(const std::string& name, int64_t cols, int64_t rows) {
  const core::WeightId id = weight(name, cols, rows);
  if (order_of_weight_.contains(id))
    throw_error("{}: {}: weights of this scheme cannot be shared with another file", file_.path(), name);
  return program_.weights[id];
}

int64_t Builder::vocabulary() const {
  const gguf::Tensor* table = file_.find_tensor("token_embd.weight");
  if (!table) table = file_.find_tensor("output.weight");
  if (!table) throw_error("{}: has no token embeddings for a draft head", file_.path());
  return table->dims[1];
}

Builder::TakenRows Builder::taken_rows() {
  constexpr std::string_view kLayers = "target_layers", kWidth = "target_hidden_size";
  const bool eagle = is_eagle_head(file_);
  TakenRows taken{.layers = hparams_.all_ints(kLayers),
                  .width = eagle ? hparams_.positive_int(kWidth, kMaxWidth) : hparams_.width(),
                  .norms_result = !eagle};
  const size_t count = taken.layers.size();
  if (eagle ? count != 3 : count < 1 || count > kMaxLayers)
    throw_error("{}: {}: expected {} layer numbers", file_.path(), hparams_.key(kLayers), eagle ? "three" : "some");
  if (std::ranges::min(taken.layers) < 0)
    throw_error("{}: {}: expected layer numbers from 0 on", file_.path(), hparams_.key(kLayers));
  const int64_t width = std::ssize(taken.layers) * taken.width;
  taken.matrix = lend("fc.weight", width, hparams_.width());
  if (!eagle || hparams_.get_bool("norm_before_fc", false)) {
    taken.norm = lend("enc.output_norm.weight", eagle ? width : hparams_.width(), 1);
    require_f32(*taken.norm);
  }
  taken.epsilon = hparams_.norm_epsilon();
  return taken;
}

void Builder::take_row(ValueId x, int64_t il) {
  if (!taken_) return;
  taken_values_.resize(taken_->layers.size(), -1);
  for (size_t i = 0; i < taken_->layers.size(); ++i)
    if (taken_->layers[i] == il) taken_values_[i] = x;
  const std::string& head = partner_->path();
  if (il == hparams_.layers() && taken_->last_layer() > il)
    throw_error("{}: reads the input of layer {}, but {} has {} layers: it is a draft head for another model", head,
                taken_->last_layer(), file_.path(), il);
  if (il != taken_->last_layer()) return;
  if (width_of(x) != taken_->width)
    throw_error("{}: reads rows of {} elements, but those of {} have {}: it is a draft head for another model", head,
                taken_->width, file_.path(), width_of(x));
  layer_ = il < hparams_.layers() ? static_cast<int32_t>(il) : -1;
  ValueId rows = taken_values_[0];
  for (size_t i = 1; i < taken_values_.size(); ++i)
    rows = emit(OpKind::concat, fmt::format("draft rows {}", i), {rows, taken_values_[i]},
                width_of(rows) + width_of(taken_values_[i]));
  const auto normed = [&](ValueId x) {
    return emit(OpKind::rms_norm, "draft norm", {x}, width_of(x), {add_weight(*taken_->norm)},
                core::NormParams{taken_->epsilon, width_of(x)});
  };
  if (taken_->norm && !taken_->norms_result) rows = normed(rows);
  rows = emit(OpKind::linear, "draft fc", {rows}, taken_->matrix.rows, {add_weight(taken_->matrix)});
  program_.hidden = taken_->norms_result ? normed(rows) : rows;
}

std::vector<int64_t> Builder::draft_vocabulary() const {
  const gguf::Tensor* tensor = file_.find_tensor("d2t");
  if (!tensor) return {};
  if (tensor->type.name() != "I64" || tensor->n_dims != 1)
    throw_error("{}: tensor d2t must be a list of I64 token ids of the model", file_.path());
  std::vector<int64_t> words(tensor->dims[0]);
  std::memcpy(words.data(), tensor->data.data(), words.size() * sizeof words[0]);
  std::set<int64_t> seen;
  for (const int64_t word : words)
    if (word < 0 || word >= program_.vocab || !seen.insert(word).second)
      throw_error("{}: tensor d2t contains token {}, expected distinct token ids below {}", file_.path(), word,
                  program_.vocab);
  return words;
}

// Logits of all of the model's tokens; those not in d2t get kNever.
void Builder::draft_logits(ValueId normed) {
  const int64_t width = width_of(normed);
  const std::vector<int64_t> words = draft_vocabulary();
  skip("d2t");
  const int64_t count = words.empty() ? program_.vocab : std::ssize(words);
  ValueId logits = -1;
  if (has("output.weight")) {
    logits = linear(normed, "output", count);
  } else {
    Builder model(*partner_);
    const bool tied = !model.has("output.weight");
    logits = emit(OpKind::linear, "output of the model", {normed}, count,
                  {add_weight(model.lend(tied ? "token_embd.weight" : "output.weight", width, count))});
  }
  if (words.empty()) {
    program_.logits = logits;
    return;
  }
  const ValueId never = emit(OpKind::linear, "other tokens", {normed}, 1,
                             {constant("other tokens", width, 0), constant("other tokens' logit", 1, kNever)});
  std::vector<int32_t> order(program_.vocab, static_cast<int32_t>(count));
  for (int64_t i = 0; i < count; ++i) order[words[i]] = static_cast<int32_t>(i);
  const ValueId all = emit(OpKind::concat, "draft logits", {logits, never}, count + 1);
  program_.logits =
      emit(OpKind::permute, "d2t", {all}, program_.vocab, {integers("d2t", order)}, core::PermuteParams{count + 1});
}

core::WeightId Builder::draft_table() {
  if (!partner_)
    throw_error("{}: this is a draft head; give it together with its model: -m MODEL --draft-model {}", file_.path(),
                file_.path());
  const int64_t width = hparams_.width();
  Builder model(*partner_);
  program_.vocab = model.vocabulary();
  core::WeightId table = -1;
  if (const gguf::Tensor* own = tensor("token_embd.weight")) {
    if (own->dims[1] != program_.vocab)
      throw_error("{}: has a vocabulary of {} tokens, but {} one of {}: a draft head needs the same vocabulary",
                  file_.path(), own->dims[1], partner_->path(), program_.vocab);
    table = weight("token_embd.weight", width, program_.vocab);
  }
  if ((table < 0 || !has("output.weight")) && model.hparams().width() != width)
    throw_error("{}: uses {} of {}, whose rows have {} elements instead of {}: it is a draft head for another model",
                file_.path(), table < 0 ? "the token embeddings" : "the output matrix", partner_->path(),
                model.hparams().width(), width);
  if (table >= 0) return table;
  return add_weight(
      model.lend(model.has("token_embd.weight") ? "token_embd.weight" : "output.weight", width, program_.vocab));
}

void Builder::eagle_head(const AttentionSpec& spec) {
  const core::WeightId table = draft_table();
  if (hparams_.blocks() != 1)
    throw_error("{}: a draft head of {} layers is not supported yet", file_.path(), hparams_.blocks());
  taken_rows();
  const int64_t width = hparams_.width();
  if (Hparams(*partner_).width() != width) { // rows of pictures do not fit
    program_.has_token_coordinates = false;
    program_.row_width = 0;
  }
  const ValueId token = emit(OpKind::embed, "token_embd", {}, width, {table}, core::EmbedParams{1});
  const std::string blk = begin_layer(0);
  program_.input = value("fused row of the token before", width, false);
  const ValueId e = rms_norm(token, blk + "attn_norm"), h = rms_norm(program_.input, blk + "attn_norm_2");
  const ValueId both = emit(OpKind::concat, blk + "concat", {e, h}, 2 * width);
  const ValueId attended = blocks::attention(*this, both, 0, spec);
  ValueId x = add(hparams_.get_bool("norm_before_residual", false) ? h : program_.input, attended, blk + "attn_add");
  x = gather(x);
  x = add(x, blocks::ffn(*this, rms_norm(x, blk + "ffn_norm"), 0), blk + "ffn_add");
  layer_ = -1;
  program_.hidden = x;
  draft_logits(rms_norm(x, "output_norm"));
}

} // namespace ridge::models
