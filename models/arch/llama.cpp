// llama: Llama 1-3, Mistral, TinyLlama, SmolLM, Yi, and, with experts, Mixtral.
#include "models/blocks.h"

namespace ridge::models {

void build_llama(Builder& b) {
  b.transformer({.rope = core::RopeStyle::adjacent}, [&](core::ValueId x, int64_t il) {
    const Hparams& h = b.hparams();
    return h.experts > 0 ? b.experts(x, il, h.ffn_width[il]) : b.ffn(x, il);
  });
}

} // namespace ridge::models
