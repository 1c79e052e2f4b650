// DFlash: a draft head in its own file that guesses a block of tokens in one pass. Chen et al. 2026,
// https://arxiv.org/abs/2602.06036
// The block, the last known token and masks, attends to itself in both directions and to the context. A layer's keys
// and values of the context are made of the model's hidden rows, combined and normed at the end of the model's Program,
// without the head's layers. Here, one Program stores both: a context token's input of a mixer is its row, a block
// token's the normed residual. What else is computed of a context token is not read.
#include "core/error.h"
#include "models/blocks/blocks.h"
#include "models/blocks/draft_heads.h"

namespace ridge::models {

using core::OpKind;
using core::ValueId;

namespace {

constexpr int64_t kMaxBlock = 1024, kUsualBlock = 16;

} // namespace

bool is_dflash_head(const gguf::File& file) { return file.get_string("general.architecture", "") == "dflash"; }

DraftBlock block_of(const gguf::File& head) {
  constexpr const char *kTokens = "dflash.block_size", *kMask = "tokenizer.ggml.mask_token_id";
  const int64_t tokens = head.get_int(kTokens, kUsualBlock), mask = head.get_int(kMask, -1);
  if (tokens < 2 || tokens > kMaxBlock)
    throw_error("{}: {} is {}, expected 2 to {}", head.path(), kTokens, tokens, kMaxBlock);
  if (mask < 0 || mask > std::numeric_limits<int32_t>::max())
    throw_error("{}: {} is missing or no token: a DFlash head needs it", head.path(), kMask);
  return {tokens, static_cast<int32_t>(mask)};
}

void Builder::dflash_head() {
  const core::WeightId table = draft_table();
  const DraftBlock block = block_of(file_);
  if (block.mask >= program_.vocab)
    throw_error("{}: the mask is token {}, but {} has {} tokens: it is a draft head for another model", file_.path(),
                block.mask, partner_->path(), program_.vocab);
  taken_rows();
  const Hparams& h = hparams_;
  const int64_t width = h.width(), layers = h.layers();
  program_.has_token_coordinates = true;
  program_.row_width = width + 1;
  ValueId x = emit(OpKind::embed, "token_embd", {}, width, {table},
                   core::EmbedParams{static_cast<float>(scale_of("embedding_scale", 1)), false, core::RowUse::none});
  const ValueId context = emit(OpKind::given, "context row", {}, width, {}, core::GivenParams{0});
  const ValueId is_context = emit(OpKind::given, "in the context", {}, 1, {}, core::GivenParams{width});
  const ValueId one = emit(OpKind::softmax, "one", {is_context}, 1);
  const ValueId in_block = add(one, is_context, "in the block", -1);

  AttentionSpec spec = {.rope = Rope::split, .qk_norm = true, .causal = true};
  spec.block_ahead = !h.get_bool("attention.causal", false);
  const int64_t window = h.get_int("attention.sliding_window", 0);
  h.has_rope_sections();                                                    // text has one coordinate
  h.get_float("logit_scale", 0), h.get_float("final_logit_softcapping", 0); // keep the order of logits
  const Model model = {.mixer =
                           [&](ValueId normed, int64_t il) {
                             const std::string blk = layer_name(il);
                             AttentionSpec of_layer = spec;
                             of_layer.window = window > 0 && h.slides(il, layers + 1) ? window : 0; // all, if not said
                             of_layer.sinks = has(blk + "attn_sinks.weight");
                             const ValueId own =
                                 blocks::glu(*this, core::Activation::identity, in_block, normed, blk + "block row");
                             return blocks::attention(*this, add(own, context, blk + "row"), il, of_layer);
                           },
                       .ffn = [&](ValueId normed, int64_t il) { return blocks::ffn(*this, normed, il); }};
  for (int64_t il = 0; il < layers; ++il) x = layer(model, x, il, il + 1 == layers);
  layer_ = -1;
  draft_logits(rms_norm(x, "output_norm"));
}

} // namespace ridge::models
