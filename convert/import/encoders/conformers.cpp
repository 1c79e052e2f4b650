// Conformers: Gemma 4's encoder of sound and LFM2-Audio's.
#include "convert/import/encoders/family.h"

namespace ridge::convert::import {
namespace {

using models::FieldRule, models::FixedField, models::Kind, models::vision::Media;

constexpr std::string_view kTowersOfGemma[] = {"audio_tower."};
constexpr EncoderRule kTowerOfGemma[] = {
    {"subsample_conv_projection.layer0.conv", "a.conv1d.0"},
    {"subsample_conv_projection.layer0.norm", "a.conv1d.0.norm"},
    {"subsample_conv_projection.layer1.conv", "a.conv1d.1"},
    {"subsample_conv_projection.layer1.norm", "a.conv1d.1.norm"},
    {"subsample_conv_projection.input_proj_linear", "a.input_projection"},
    {"output_proj", "a.pre_encode.out"},
};
// Each matrix is in a module with limits of its inputs and outputs.
#define RIDGE_CLIPPED(from, to)                                                                                        \
  {from ".linear", to}, RIDGE_LIMIT(from, to, ".input_min"), RIDGE_LIMIT(from, to, ".input_max"),                      \
      RIDGE_LIMIT(from, to, ".output_min"), RIDGE_LIMIT(from, to, ".output_max")
#define RIDGE_LIMIT(from, to, which)                                                                                   \
  { from which, to which, Take::all, kOptional }
constexpr EncoderRule kLayerOfGemma[] = {
    {"feed_forward1.pre_layer_norm", "ffn_norm"},
    RIDGE_CLIPPED("feed_forward1.ffw_layer_1", "ffn_up"),
    RIDGE_CLIPPED("feed_forward1.ffw_layer_2", "ffn_down"),
    {"feed_forward1.post_layer_norm", "ffn_post_norm"},
    {"norm_pre_attn", "attn_pre_norm"},
    RIDGE_CLIPPED("self_attn.q_proj", "attn_q"),
    RIDGE_CLIPPED("self_attn.k_proj", "attn_k"),
    RIDGE_CLIPPED("self_attn.v_proj", "attn_v"),
    RIDGE_CLIPPED("self_attn.post", "attn_out"),
    {"self_attn.relative_k_proj", "attn_k_rel"},
    {"self_attn.per_dim_scale", "per_dim_scale.weight", Take::softplus},
    {"norm_post_attn", "attn_post_norm"},
    {"lconv1d.pre_layer_norm", "conv_norm"}, // readers have these two norms exchanged
    {"lconv1d.conv_norm", "norm_conv"},
    RIDGE_CLIPPED("lconv1d.linear_start", "conv_pw1"),
    RIDGE_CLIPPED("lconv1d.linear_end", "conv_pw2"),
    {"lconv1d.depthwise_conv1d", "conv_dw", Take::squeezed},
    {"feed_forward2.pre_layer_norm", "ffn_norm_1"},
    RIDGE_CLIPPED("feed_forward2.ffw_layer_1", "ffn_up_1"),
    RIDGE_CLIPPED("feed_forward2.ffw_layer_2", "ffn_down_1"),
    {"feed_forward2.post_layer_norm", "ffn_post_norm_1"},
    {"norm_out", "ln2"},
};
#undef RIDGE_CLIPPED
#undef RIDGE_LIMIT
constexpr EncoderRule kBesideGemma[] = {{"embed_audio.embedding_projection", "mm.a.input_projection"}};
constexpr FieldRule kFieldsOfGemma[] = {
    {"embedding_length", Kind::count, "audio_config.hidden_size", 1024},
    {"feed_forward_length", Kind::count, "audio_config.hidden_size * 4", 4096},
    {"block_count", Kind::count, "audio_config.num_hidden_layers", 12},
    {"attention.head_count", Kind::count, "audio_config.num_attention_heads", 8},
    {"num_mel_bins", Kind::count, "audio_config.input_feat_size", 128},
};
constexpr FixedField kFixedOfGemma[] = {
    {"audio_config.attention_chunk_size", 12, 12},  {"audio_config.attention_context_left", 13, 13},
    {"audio_config.attention_context_right", 0, 0}, {"audio_config.attention_logit_cap", 50, 50},
    {"audio_config.residual_weight", 0.5, 0.5},     {"audio_config.conv_kernel_size", 5, 5},
    {"audio_config.rms_norm_eps", 1e-6, 1e-6},
};

constexpr std::string_view kTowersOfLfm2[] = {"conformer."};
constexpr EncoderRule kTowerOfLfm2[] = {
    {"pre_encode.conv.0.weight", "a.conv1d.0.weight"},
    {"pre_encode.conv.0.bias", "a.conv1d.0.bias", Take::one_pixel},
    {"pre_encode.conv.2.weight", "a.conv1d.2.weight"},
    {"pre_encode.conv.2.bias", "a.conv1d.2.bias", Take::one_pixel},
    {"pre_encode.conv.3.weight", "a.conv1d.3.weight"},
    {"pre_encode.conv.3.bias", "a.conv1d.3.bias", Take::one_pixel},
    {"pre_encode.conv.5.weight", "a.conv1d.5.weight"},
    {"pre_encode.conv.5.bias", "a.conv1d.5.bias", Take::one_pixel},
    {"pre_encode.conv.6.weight", "a.conv1d.6.weight"},
    {"pre_encode.conv.6.bias", "a.conv1d.6.bias", Take::one_pixel},
    {"pre_encode.out", "a.pre_encode.out"},
};
constexpr EncoderRule kLayerOfLfm2[] = {
    {"norm_feed_forward1", "ffn_norm"},
    {"feed_forward1.linear1", "ffn_up"},
    {"feed_forward1.linear2", "ffn_down"},
    {"norm_self_att", "ln1"},
    {"self_attn.linear_q", "attn_q"},
    {"self_attn.linear_k", "attn_k"},
    {"self_attn.linear_v", "attn_v"},
    {"self_attn.linear_out", "attn_out"},
    {"self_attn.linear_pos", "linear_pos"},
    {"self_attn.pos_bias_u", "pos_bias_u"},
    {"self_attn.pos_bias_v", "pos_bias_v"},
    {"norm_conv", "norm_conv"},
    {"conv.pointwise_conv1", "conv_pw1", Take::squeezed},
    {"conv.depthwise_conv", "conv_dw", Take::squeezed},
    {"conv.batch_norm", "conv_norm.weight", Take::norm_factor},
    {"conv.batch_norm", "conv_norm.bias", Take::norm_shift},
    {"conv.pointwise_conv2", "conv_pw2", Take::squeezed},
    {"norm_feed_forward2", "ffn_norm_1"},
    {"feed_forward2.linear1", "ffn_up_1"},
    {"feed_forward2.linear2", "ffn_down_1"},
    {"norm_out", "ln2"},
};
constexpr EncoderRule kBesideLfm2[] = {
    {"audio_adapter.model.0", "mm.a.mlp.0"},
    {"audio_adapter.model.1", "mm.a.mlp.1"},
    {"audio_adapter.model.3", "mm.a.mlp.3"},
};
constexpr std::string_view kUnusedOfLfm2[] = {"num_batches_tracked", "pos_enc."};
constexpr FieldRule kFieldsOfLfm2[] = {
    {"embedding_length", Kind::count, "encoder.d_model"},
    {"feed_forward_length", Kind::count, "encoder.d_model * encoder.ff_expansion_factor | 4"},
    {"block_count", Kind::count, "encoder.n_layers"},
    {"attention.head_count", Kind::count, "encoder.n_heads"},
    {"num_mel_bins", Kind::count, "encoder.feat_in"},
};
constexpr FixedField kFixedOfLfm2[] = {
    {"encoder.d_model", 512, 512},
    {"encoder.conv_kernel_size", 9, 9},
    {"encoder.subsampling_factor", 8, 8},
};

} // namespace

constinit const EncoderFamily families::gemma4a = {.media = Media::sound,
                                                   .section = "audio_config",
                                                   .projector = "gemma4a",
                                                   .towers = kTowersOfGemma,
                                                   .layers = "layers.",
                                                   .tower = kTowerOfGemma,
                                                   .layer = kLayerOfGemma,
                                                   .beside = kBesideGemma,
                                                   .fields = kFieldsOfGemma,
                                                   .fixed = kFixedOfGemma,
                                                   .activation = "silu"};

constinit const EncoderFamily families::lfm2audio = {.media = Media::sound,
                                                     .section = "encoder",
                                                     .projector = "lfm2a",
                                                     .towers = kTowersOfLfm2,
                                                     .layers = "layers.",
                                                     .tower = kTowerOfLfm2,
                                                     .layer = kLayerOfLfm2,
                                                     .beside = kBesideLfm2,
                                                     .unused = kUnusedOfLfm2,
                                                     .fields = kFieldsOfLfm2,
                                                     .fixed = kFixedOfLfm2,
                                                     .epsilon = 1e-5};

} // namespace ridge::convert::import
