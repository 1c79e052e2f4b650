// Blocks of architectures: mostly from the normed input x [width] of layer `il` to its addend of the residual stream.
#pragma once

#include "models/blocks/builder.h"

namespace ridge::models::blocks {

core::ValueId activate(Builder& b, core::ValueId x, const std::string& name, const ActivationSpec& activation = {});
core::ValueId attention(Builder& b, core::ValueId x, int64_t il, const AttentionSpec& spec);
core::ValueId ffn(Builder& b, core::ValueId x, int64_t il, const ActivationSpec& activation = {});
// Includes the shared expert if the file has one.
core::ValueId experts(Builder& b, core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                      const ActivationSpec& activation = {});
// neighbors_share: core::DeltaParams; `gate`: of the output.
core::ValueId delta_net(Builder& b, core::ValueId x, int64_t il, bool neighbors_share,
                        core::Activation gate = core::Activation::silu);
// `epsilon`: of the norms of q and k; `minus`: the file's rates are negated.
core::ValueId kimi_delta(Builder& b, core::ValueId x, int64_t il, float epsilon, bool minus = false);
core::ValueId mamba2(Builder& b, core::ValueId x, int64_t il);
core::ValueId mamba(Builder& b, core::ValueId x, int64_t il);       // Mamba 1: a rate per channel and state
core::ValueId plamo_mamba(Builder& b, core::ValueId x, int64_t il); // PLaMo 2: a rate per head
core::ValueId short_conv(Builder& b, core::ValueId x, int64_t il);
// Linear attention with fixed decay per head, times `pace`.
core::ValueId lightning_attention(Builder& b, core::ValueId x, int64_t il, double pace);
core::ValueId time_mix(Builder& b, core::ValueId x, int64_t il);
// The feed-forward part of RWKV 6 (gated) and RWKV 7.
core::ValueId channel_mix(Builder& b, core::ValueId x, int64_t il, bool gated);
// RWKV 7: returns the result and the first layer's values, which later layers mix in.
std::pair<core::ValueId, core::ValueId> time_mix7(Builder& b, core::ValueId x,
                                                  std::optional<core::ValueId> first_values, int64_t il);
core::ValueId latent_attention(Builder& b, core::ValueId x, int64_t il, const LatentSpec& spec);
core::ValueId compressed_attention(Builder& b, core::ValueId x, int64_t il);
// Encoder-decoder models. Both Programs have the same caches, so that KV blocks are interchangeable: first those of
// cross-attention, which the encoder fills, then those of self-attention, as many as the deeper stack has. Call
// share_caches() first.
void share_caches(Builder& b, int64_t encoder_layers, int64_t decoder_layers);
// Stores keys and values of the encoder's output.
void store_encoded(Builder& b, core::ValueId encoded, int64_t decoder_layers);
core::ValueId attend_to_encoded(Builder& b, core::ValueId x, int64_t il);
// Blocks of attention.compress_ratios positions that the layer's indexer selects; nothing if that is 0. `attention`
// gives the heads' rope.
std::optional<core::ValueId> chosen_blocks(Builder& b, core::ValueId x, int64_t il, const AttentionSpec& attention);
// Adds n-gram embeddings (ple.*) if the layer has them.
core::ValueId add_ngrams(Builder& b, core::ValueId streams, int64_t il);
// Scales for rope.scaling. Scores are multiplied by YaRN's magnitude of `multiplier`, rope by the ratio of the
// magnitudes of `rope_multiplier` and `multiplier`.
LatentSpec latent_spec(const Builder& b, double multiplier, double rope_multiplier);
// A dense part or experts, by Hparams::has_experts.
core::ValueId feed_forward(Builder& b, core::ValueId x, int64_t il, const RoutingSpec& routing = {},
                           const ActivationSpec& activation = {});
// Per-layer embeddings [layers * width], and adding them to the residual stream.
core::ValueId layer_inputs(Builder& b, core::ValueId x, int64_t width);
core::ValueId add_layer_input(Builder& b, core::ValueId x, core::ValueId inputs, int64_t il);
// keep_residual() appends x to the saved residual streams. mix_residuals() is the mean of these and x, weighted by a
// softmax of the normed streams' products with `scores`.
core::ValueId keep_residual(Builder& b, std::optional<core::ValueId> kept, core::ValueId x, const std::string& name);
core::ValueId mix_residuals(Builder& b, core::ValueId kept, core::ValueId x, const std::string& scores);
// AltUp: the residual stream has `parts` parts [parts * width]; the first goes through a layer.
core::ValueId altup_stream(Builder& b, core::ValueId x, int64_t parts);
core::ValueId altup_predict(Builder& b, core::ValueId stream, int64_t il, int64_t parts);
core::ValueId altup_correct(Builder& b, core::ValueId predicted, core::ValueId computed, int64_t il, int64_t parts);
core::ValueId altup_layer_input(Builder& b, core::ValueId stream, core::ValueId inputs, int64_t il, int64_t parts);
core::ValueId altup_mean(Builder& b, core::ValueId stream, int64_t parts);
core::ValueId columns(Builder& b, core::ValueId x, const std::string& name, int64_t first, int64_t count);
core::ValueId laurel(Builder& b, core::ValueId x, int64_t il);
// Gates count only above their mean plus `deviations` standard deviations.
core::ValueId sparse_ffn(Builder& b, core::ValueId x, int64_t il, double deviations);
void skip_indexer(Builder& b, int64_t il);
void skip_stack(Builder& b, std::string_view stack);
core::ValueId permute(Builder& b, core::ValueId x, const std::string& name, std::span<const int32_t> order);
core::ValueId repeated(Builder& b, core::ValueId x, const std::string& name, int64_t parts);
core::ValueId last_first(Builder& b, core::ValueId x, const std::string& name, int64_t head_dim, int64_t count);
core::ValueId gated_layer_input(Builder& b, core::ValueId x, core::ValueId inputs, int64_t il);
core::ValueId rope(Builder& b, core::ValueId x, const std::string& name, const AttentionSpec& spec);
core::ValueId activate(Builder& b, core::ValueId gate, core::ValueId up, const std::string& name,
                       const ActivationSpec& activation);
core::ValueId glu(Builder& b, core::Activation kind, core::ValueId gate, core::ValueId x, const std::string& name);
core::ValueId conv1d(Builder& b, core::ValueId x, const std::string& tensor, int64_t kernel,
                     core::Activation activation);
core::ValueId attention_gate(Builder& b, core::ValueId x, const std::string& blk, int64_t heads, int64_t v_dim);
core::KvLayer encoded_cache(const Builder& b, int64_t il);
int32_t rope_table(Builder& b, const AttentionSpec& spec);
core::ValueId hyper_begin(Builder& b, core::ValueId x);
core::ValueId hyper_end(Builder& b, HyperConnections kind, core::ValueId x);
std::pair<core::ValueId, core::ValueId> hyper_input(Builder& b, HyperConnections kind, core::ValueId x,
                                                    const std::string& tensor);
// The `most` best positions; each key covers `span` of them.
core::ValueId best_positions(Builder& b, core::ValueId queries, core::ValueId weights, core::ValueId key,
                             const std::string& blk, int64_t span, int64_t most, core::IndexParams params);
core::Weight head_rows(Builder& b, const std::string& tensor, int64_t cols, int64_t tensor_rows, int64_t heads,
                       int64_t first, int64_t rows);
int32_t new_state(Builder& b, const std::string& name, int64_t width);
AttentionSpec resolved(const Builder& b, AttentionSpec spec, int64_t il);
RoutingSpec resolved(const Builder& b, RoutingSpec spec, int64_t il);

} // namespace ridge::models::blocks
