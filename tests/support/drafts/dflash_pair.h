// A tiny random model and its DFlash head.
#pragma once

#include "support/drafts/eagle_pair.h"

namespace ridge::tests {

struct DflashPair : EaglePair {
  int64_t head_layers = 2, block = 8, window = 0; // of the head's first layer
  bool sinks = false, causal = false;
  uint32_t mask = 47;
  std::string further; // a vector

  DflashPair() {
    own_output = false;
    own_vocab = 0;
  }
  static std::vector<DflashPair> kinds() {
    std::vector<DflashPair> made(4);
    made[1].layers = {5}; // the last layer's result
    made[1].own_table = made[1].own_output = true;
    made[1].own_vocab = 24;
    made[1].head_layers = 1;
    made[2].layers = {0, 2, 2, 4, 5};
    made[2].head_layers = 3;
    made[2].window = 6;
    made[2].sinks = true;
    made[3].causal = true;
    return made;
  }

  gguf::File head() const { return open(head_image(), "dflash.gguf"); }

  std::shared_ptr<std::vector<std::byte>> head_image() const {
    std::vector<gguf::TensorInfo> tensors;
    add(tensors, "fc.weight", {std::ssize(layers) * width, width});
    add(tensors, "enc.output_norm.weight", {width});
    if (own_table) add(tensors, "token_embd.weight", {width, vocab});
    for (int64_t il = 0; il < head_layers; ++il) {
      add_layer(tensors, il, width, width);
      for (const char* norm : {"attn_q_norm", "attn_k_norm"})
        add(tensors, fmt::format("blk.{}.{}.weight", il, norm), {kDim});
      if (sinks) add(tensors, fmt::format("blk.{}.attn_sinks.weight", il), {kHeads});
    }
    if (!further.empty()) add(tensors, further, {width});
    add(tensors, "output_norm.weight", {width});
    if (own_output) add(tensors, "output.weight", {width, own_vocab > 0 ? own_vocab : vocab});
    if (own_vocab > 0) tensors.push_back({"d2t", gguf::PlainType::I64, {own_vocab}});
    gguf::Metadata head = metadata("dflash", width, head_layers);
    head.set("dflash.target_layers", layers);
    head.set("dflash.block_size", static_cast<uint32_t>(block));
    head.set("tokenizer.ggml.mask_token_id", mask);
    if (causal) head.set("dflash.attention.causal", true);
    if (window > 0) {
      std::vector<bool> slides(head_layers);
      slides[0] = true;
      head.set("dflash.attention.sliding_window", static_cast<uint32_t>(window));
      head.set("dflash.attention.sliding_window_pattern", slides);
    }
    return image(head, tensors);
  }
};

} // namespace ridge::tests
