// The stack from embedding to logits, and draft heads.
// A draft head (multi-token prediction, "nextn") is one more layer. It reads a token and the model's hidden row of the
// previous token: their norms, concatenated, go through a matrix, a layer like the model's and the output. It predicts
// the token after.
#include "core/error.h"
#include "models/blocks/blocks.h"

#include <cmath>

namespace ridge::models {

using core::OpKind;
using core::ValueId;

// Folds the scale into the norm's weights, since logits are linear in them.
ValueId Builder::final_norm(ValueId x, const std::string& tensor, double scale) {
  if (tensor.empty()) return x;
  const ValueId normed = norm(x, tensor);
  if (scale != 1)
    for (const core::WeightId id : program_.ops.back().weights) scale_weight(id, scale);
  return normed;
}

void Builder::output_matrix(ValueId x, bool bias) {
  if (draft_head_ && has(draft_name("shared_head_head") + ".weight")) {
    program_.logits = linear(x, draft_name("shared_head_head"), program_.vocab);
    return;
  }
  const bool tied = !has("output.weight");
  if (!bias) skip("output.bias");
  if (tied || !bias)
    program_.logits = emit(OpKind::linear, tied ? "output (tied)" : "output", {x}, program_.vocab,
                           {weight(tied ? "token_embd.weight" : "output.weight", hparams_.width(), program_.vocab)});
  else
    program_.logits = linear(x, "output", program_.vocab);
}

void Builder::logits(ValueId x, const std::string& norm, double scale, double soft_cap, bool bias) {
  layer_ = -1;
  if (embeds_) return hidden(x, norm);
  const bool keeps_normed = keeps_hidden_ && drafts_ == Drafts::normed;
  if (keeps_hidden_ && drafts_ == Drafts::residual) {
    program_.hidden = x;
    if (!gathered(x)) x = gather(x);
  }
  x = final_norm(x, norm, keeps_normed ? 1 : scale);
  if (keeps_normed) {
    program_.hidden = x;
    if (!gathered(x)) x = gather(x);
  }
  output_matrix(x, bias);
  if ((keeps_normed || norm.empty()) && scale != 1) program_.logits = scaled(program_.logits, "output scale", scale);
  if (!(soft_cap >= 0 && std::isfinite(soft_cap)))
    throw_error("{}: {} is {}, expected a number above 0", file_.path(), hparams_.key("final_logit_softcapping"),
                soft_cap);
  if (soft_cap != 0)
    program_.logits = emit(OpKind::activate, "output soft cap", {program_.logits}, program_.vocab, {},
                           core::ActivationParams{core::Activation::soft_cap, static_cast<float>(soft_cap)});
}

void Builder::hidden(ValueId x, const std::string& norm) {
  x = final_norm(x, norm, 1);
  // These matrices are applied to the mean of hidden states. They are linear, so applying them first is equivalent.
  for (const std::string name : {"dense_2", "dense_3"})
    if (const gguf::Tensor* matrix = file_.find_tensor(name + ".weight")) x = linear(x, name, matrix->dims[1]);
  program_.output = x;
  program_.embeds = true;
  if (const auto planar = PlanarWeight::find(file_, "output.weight"))
    for (const gguf::Tensor* tensor : planar->tensors()) skip(tensor->name);
  for (const char* head : {"output.weight", "output.bias", "output.scale", "cls.weight", "cls.bias", "cls.norm.weight",
                           "cls.output.weight", "cls.output.bias"})
    skip(head);
}

double Builder::scale_of(const Model& model, std::string_view key, double own) const {
  return model.scaled ? scale_of(key, own) : own;
}

ValueId Builder::layer(const Model& model, ValueId x, int64_t il, bool gathers) {
  const std::string blk = begin_layer(il);
  const core::AddParams residual = {static_cast<float>(scale_of(model, "residual_scale", model.residual_scale))};
  ValueId gates = -1;
  const auto block_input = [&](ValueId streams, const std::string& tensor) {
    if (model.hyper_connections == HyperConnections::none) return streams;
    ValueId input;
    std::tie(input, gates) = blocks::hyper_input(*this, model.hyper_connections, streams, tensor);
    return input;
  };
  const auto join = [&](ValueId stream, ValueId block, const std::string& name) {
    if (model.hyper_connections != HyperConnections::none)
      return emit(OpKind::hyper_join, name, {block, stream, gates}, width_of(stream));
    return emit(OpKind::add, name, {stream, block}, width_of(stream), {}, residual);
  };
  const auto normed = [&](ValueId input, std::string_view tensor) {
    return tensor.empty() ? input : norm(input, blk + std::string(tensor));
  };
  const auto post_normed = [&](ValueId block, std::string_view tensor) {
    block = normed(block, tensor);
    if (model.post_norm_epsilon && !tensor.empty())
      std::get<core::NormParams>(program_.ops.back().params).epsilon = *model.post_norm_epsilon;
    return block;
  };
  if (model.start_layer) x = model.start_layer(x, il);
  const ValueId mixer_input = normed(block_input(x, blk + "hc_attn"), model.mixer_norm);
  const ValueId mixed = post_normed(model.mixer(mixer_input, il), model.mixer_post_norm);
  ValueId ffn_input = !model.parallel ? -1 : model.ffn_norm.empty() ? mixer_input : normed(x, model.ffn_norm);
  const ValueId before = x;
  x = join(x, mixed, blk + "attn_add");
  if (gathers) {
    x = gather(x);
    if (model.parallel) ffn_input = gather(ffn_input);
  }
  if (model.end_mixer) x = model.end_mixer(x, before, il);
  if (model.ffn) {
    if (!model.parallel) ffn_input = normed(block_input(x, blk + "hc_ffn"), model.ffn_norm);
    x = join(x, post_normed(model.ffn(ffn_input, il), model.ffn_post_norm), blk + "ffn_add");
  }
  return model.end_layer ? model.end_layer(x, il) : x;
}

void Builder::build(const Model& model) {
  norms_ = model.layer_norms ? NormKind::layer : model.norm_biases ? NormKind::biased_rms : NormKind::rms;
  bare_norms_ = model.bare_norms;
  embeds_ |= model.embeds;
  stack_ = model.stack;
  drafts_ = model.drafts;
  if (keeps_hidden_ && (drafts_ == Drafts::none || embeds_)) refuse_drafts();
  if (draft_head_) return build_draft_head(model);
  // A file's scale also applies to given rows.
  ValueId x = embed(scale_of(model, "embedding_scale", model.embedding_scale),
                    model.scaled ? core::RowUse::scaled : core::RowUse::unscaled);
  if (model.learns_positions) x = add(x, embed_positions(), "position_add");
  if (model.begin) x = model.begin(x);
  const bool has_streams = model.hyper_connections != HyperConnections::none;
  if (has_streams) x = blocks::hyper_begin(*this, x);
  const int64_t layers = model.layers.value_or(hparams_.layers());
  // The last feed-forward part processes only tokens with wanted logits, unless draft heads need all.
  const bool all_to_end = keeps_hidden_ || model.ffn_has_state || (taken_ && taken_->last_layer() == layers);
  for (int64_t il = 0; il < layers; ++il) {
    take_row(x, il);
    x = layer(model, x, il, il + 1 == layers && !all_to_end);
  }
  take_row(x, layers);
  if (all_to_end && !keeps_hidden_) x = gather(x);
  if (has_streams) x = blocks::hyper_end(*this, model.hyper_connections, x);
  end(model, x, std::string(model.output_norm));
}

void Builder::end(const Model& model, ValueId x, const std::string& norm) {
  logits(x, norm, 1 / scale_of(model, "logit_scale", 1 / model.logit_scale), model.soft_cap, model.output_bias);
}

void Builder::build_draft_head(const Model& model) {
  const int64_t width = hparams_.width();
  const ValueId token = embed();
  begin_layer(draft_layer());
  program_.input = value("hidden row of the token before", width, false);
  const ValueId e = norm(token, draft_name("enorm")), h = norm(program_.input, draft_name("hnorm"));
  // A further head takes the rows of all tokens.
  const bool hands_on =
      draft_layer() + 1 < hparams_.blocks() && has(fmt::format("blk.{}.nextn.eh_proj.weight", draft_layer() + 1));
  const ValueId both = emit(OpKind::concat, draft_name("concat"), {e, h}, 2 * width);
  const ValueId x = layer(model, linear(both, draft_name("eh_proj"), width), draft_layer(), !hands_on);
  // MiMo V2 names the norm like a layer's.
  const std::string layer_norm = fmt::format("blk.{}.layer_output_norm", draft_layer());
  skip(layer_norm + ".weight");
  for (const std::string& own_norm : {draft_name("shared_head_norm"), layer_norm})
    if (has(own_norm + ".weight")) return end(model, x, own_norm);
  end(model, x, std::string(model.output_norm));
}

void Builder::refuse_drafts() const {
  throw_error("{}: draft heads of {} models are not supported yet", file_.path(), program_.architecture);
}

void Builder::transformer(const AttentionSpec& spec, const Block& ffn) {
  build({.mixer = [&](ValueId x, int64_t il) { return blocks::attention(*this, x, il, spec); }, .ffn = ffn});
}

} // namespace ridge::models
