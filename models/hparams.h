// Hyperparameters of a model file: the metadata under "<architecture>.". Each is read and checked when it is asked for,
// so a builder needs only those that its architecture has: a model without attention has no number of heads.
#pragma once

#include "gguf/gguf.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

// The largest value of each that is accepted: far above any model, and low enough that products of them fit in 64 bits.
inline constexpr int64_t kMaxWidth = 1 << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096,
                         kMaxExperts = 4096, kMaxContext = int64_t{1} << 31;

class Hparams {
 public:
  explicit Hparams(const gguf::File& file); // which must outlive this

  const std::string& architecture() const { return architecture_; } // general.architecture
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }

  // The value of "<architecture>.<name>"; an Error names the key. Without a default the key is required.
  int64_t get_int(std::string_view name) const;
  int64_t get_int(std::string_view name, int64_t fallback) const;
  int64_t positive_int(std::string_view name, int64_t most) const; // required, 1 to `most`
  double get_float(std::string_view name, double fallback) const;
  bool get_bool(std::string_view name, bool fallback) const;
  std::string get_string(std::string_view name, std::string_view fallback) const;
  // The same where a file may hold one value for all layers or an array with one for each layer.
  int64_t layer_int(std::string_view name, int64_t layer) const;
  int64_t layer_int(std::string_view name, int64_t layer, int64_t fallback) const;
  double layer_float(std::string_view name, int64_t layer, double fallback) const;
  // The same of a key without the architecture's name before it.
  double layer_float_of_all(std::string_view key, int64_t layer) const;
  // The first `count` numbers of an array that has at least as many.
  std::vector<int64_t> ints(std::string_view name, int64_t count) const;

  std::vector<int64_t> all_ints(std::string_view name) const; // of an array; none where there is no array

  // Those that most architectures have, checked for range. `layer` is 0 to layers() - 1, or that of a draft layer: up
  // to blocks() - 1.
  int64_t blocks() const;                // block_count: with draft layers, which come last
  int64_t layers() const;                // block_count without nextn_predict_layers
  int64_t width() const;                 // embedding_length
  int64_t context() const;               // context_length: trained, in tokens
  int64_t heads(int64_t layer) const;    // attention.head_count
  int64_t kv_heads(int64_t layer) const; // attention.head_count_kv, else heads
  // attention.key_length, else width / heads of the first layer with any; attention.value_length, else the same;
  // rope.dimension_count, else k_dim; even. Layers with a window use those with _swa behind, where the file has them.
  int64_t k_dim(int64_t layer, bool slides = false) const;
  int64_t v_dim(int64_t layer, bool slides = false) const;
  int64_t rope_dims(int64_t k_dim, bool slides = false) const;
  // For latent attention, before keys and values are made narrower: attention.key_length_mla and value_length_mla, else
  // as above.
  int64_t latent_k_dim(int64_t layer) const;
  int64_t latent_v_dim(int64_t layer) const;
  // attention.sliding_window, in tokens; required where there is no fallback.
  int64_t window(std::optional<int64_t> fallback = {}) const;
  double sliding_rope_base(std::optional<double> fallback = {}) const; // rope.freq_base_swa, else rope.freq_base
  float norm_epsilon() const;                                          // attention.layer_norm_rms_epsilon
  float layer_norm_epsilon() const;                                    // attention.layer_norm_epsilon
  bool has_rope_sections() const;            // the first two of rope.dimension_sections are above 0
  int64_t original_context() const;          // rope.scaling.original_context_length, else context_length
  int64_t ffn_width(int64_t layer) const;    // feed_forward_length
  int64_t expert_width(int64_t layer) const; // expert_feed_forward_length, else feed_forward_length
  int64_t experts() const;                   // expert_count; 0: a dense model
  int64_t experts_used(int64_t layer) const; // expert_used_count
  // Whether the number of key-value heads of the layer is not 0: some hybrids mark their recurrent layers so.
  bool has_attention(int64_t layer) const;
  // Whether the layer's attention has a window: attention.sliding_window_pattern, flags of the layers or a number n:
  // all but the last of every n layers have one, or but the first. `fallback`: n where the file does not say. A draft
  // layer has one only where its flag says so.
  enum class Sees : uint8_t { all_last, all_first };
  bool slides(int64_t layer, int64_t fallback, Sees which = Sees::all_last) const;
  // Whether the layer's feed-forward part is one of experts: expert_count is not 0, leading_dense_block_count layers
  // are over, and it is the last of every interleave_moe_layer_step.
  bool has_experts(int64_t layer) const;
  // Whether the layer is recurrent: attention.recurrent_layers, or all but every full_attention_interval-th
  // (`interval`). Draft layers never are.
  bool is_recurrent(int64_t layer, int64_t interval = 4) const;
  // ssm.NAME, 1 to kMaxWidth.
  int64_t ssm(std::string_view name) const;

  // Throws Error: "FILE: KEY is VALUE: WHAT not supported yet".
  [[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view what) const;
  // Throws such an Error where the file has a hyperparameter that changes what the model computes, at a value that
  // makes a difference, and nothing has asked for it.
  void refuse_ignored() const;

 private:
  float epsilon(std::string_view name) const;
  int64_t in_range(std::string_view name, int64_t value, int64_t low, int64_t high) const;
  const gguf::Value* array(std::string_view name) const; // nullptr: not there, or one value for all layers
  int64_t head_dim(std::string_view name, int64_t layer) const;
  std::string of_sliding(std::string_view name, bool slides) const;
  int64_t layer_of_array(std::string_view name, const gguf::Value& array, int64_t layer) const;
  std::string asked(std::string_view name) const; // the key, noted

  const gguf::File& file_;
  std::string architecture_;
  mutable std::set<std::string, std::less<>> asked_; // names of keys
};

} // namespace ridge::models
