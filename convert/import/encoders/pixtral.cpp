// Pixtral, Mistral Small 3.1 and later.
#include "convert/import/encoders/family.h"

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind;

constexpr std::string_view kTowers[] = {"vision_tower."};

constexpr EncoderRule kTower[] = {{"patch_conv", "v.patch_embd"}, {"ln_pre", "v.pre_ln"}};
constexpr EncoderRule kLayer[] = {
    {"attention_norm", "ln1"},
    {"ffn_norm", "ln2"},
    {"attention.q_proj", "attn_q", Take::rope_pairs},
    {"attention.k_proj", "attn_k", Take::rope_pairs},
    {"attention.v_proj", "attn_v"},
    {"attention.o_proj", "attn_out"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
};
constexpr EncoderRule kBeside[] = {
    {"multi_modal_projector.norm", "mm.input_norm", Take::all, kOptional},
    {"multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger", Take::all, kOptional},
    {"multi_modal_projector.linear_1", "mm.1"},
    {"multi_modal_projector.linear_2", "mm.2"},
};
constexpr FieldRule kFields[] = {
    {"embedding_length", Kind::count, "vision_config.hidden_size", 1024},
    {"feed_forward_length", Kind::count, "vision_config.intermediate_size", 4096},
    {"block_count", Kind::count, "vision_config.num_hidden_layers", 24},
    {"attention.head_count", Kind::count, "vision_config.num_attention_heads", 16},
    {"image_size", Kind::count, "vision_config.image_size", 1024},
    {"patch_size", Kind::count, "vision_config.patch_size", 16},
    {"spatial_merge_size", Kind::count, "spatial_merge_size", 1},
    {"attention.head_dim", Kind::count, "vision_config.head_dim"},
    {"attention.layer_norm_epsilon", Kind::real, "1e-5"},
};
constexpr FixedField kFixed[] = {{"vision_config.rope_parameters.rope_theta | vision_config.rope_theta", 10000, 10000},
                                 {"vision_feature_layer", -1, -1}};

} // namespace

constinit const EncoderFamily families::pixtral = {.projector = "pixtral",
                                                   .towers = kTowers,
                                                   .layers = "transformer.layers.",
                                                   .tower = kTower,
                                                   .layer = kLayer,
                                                   .beside = kBeside,
                                                   .fields = kFields,
                                                   .fixed = kFixed,
                                                   .mean = kClipMean,
                                                   .deviation = kClipDeviation,
                                                   .table_row = "[IMG_BREAK]"};

} // namespace ridge::convert::import
