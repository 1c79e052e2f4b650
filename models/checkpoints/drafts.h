// Draft heads (multi-token prediction) in checkpoints.
#pragma once

#include "models/checkpoints/checkpoint.h"

namespace ridge::models::checkpoints {

// A head is a layer behind the others: model.layers.N.
inline constexpr TensorRule kDraftLayers[] = {
    {"eh_proj", "nextn.eh_proj"},
    {"enorm", "nextn.enorm"},
    {"hnorm", "nextn.hnorm"},
    {"embed_tokens", "nextn.embed_tokens"},
    {"shared_head.norm", "nextn.shared_head_norm"},
    {"final_layernorm", "nextn.shared_head_norm"}, // Hunyuan 3
    {"shared_head.head", "nextn.shared_head_head"},
};

// One head aside: mtp. and mtp.layers.0.; norms are stored as w - 1.
inline constexpr TensorRule kDraftAside[] = {
    {"fc", "nextn.eh_proj"},
    {"pre_fc_norm_embedding", "nextn.enorm", {.change = Change::plus_one}},
    {"pre_fc_norm_hidden", "nextn.hnorm", {.change = Change::plus_one}},
    {"norm", "nextn.shared_head_norm", {.change = Change::plus_one}},
};

} // namespace ridge::models::checkpoints
