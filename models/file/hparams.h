// Hyperparameters: metadata under "<architecture>.". Each is checked when it is requested, so builders need only those
// that they use.
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

// Upper limits: far above any model, while products fit in 64 bits.
inline constexpr int64_t kMaxWidth = 1 << 20, kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096,
                         kMaxExperts = 4096, kMaxContext = int64_t{1} << 31;

class Hparams {
 public:
  explicit Hparams(const gguf::File& file);

  const std::string& architecture() const { return architecture_; }
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }

  // Value of "<architecture>.<name>"; required without a fallback. Throws Error naming the key.
  int64_t get_int(std::string_view name) const;
  int64_t get_int(std::string_view name, int64_t fallback) const;
  int64_t positive_int(std::string_view name, int64_t most) const;
  double get_float(std::string_view name, double fallback) const;
  bool get_bool(std::string_view name, bool fallback) const;
  std::string get_string(std::string_view name, std::string_view fallback) const;
  // The same for one value or an array with one per layer.
  int64_t layer_int(std::string_view name, int64_t layer) const;
  int64_t layer_int(std::string_view name, int64_t layer, int64_t fallback) const;
  double layer_float(std::string_view name, int64_t layer, double fallback) const;
  // `key` includes the architecture.
  double layer_float_of_all(std::string_view key, int64_t layer) const;
  // The first `count` numbers of an array that has at least as many.
  std::vector<int64_t> ints(std::string_view name, int64_t count) const;

  std::vector<int64_t> all_ints(std::string_view name) const;

  // Range-checked. `layer` is below layers(), or below blocks() for draft layers.
  int64_t blocks() const;                // block_count, with draft layers
  int64_t layers() const;                // block_count minus nextn_predict_layers
  int64_t width() const;                 // embedding_length
  int64_t context() const;               // trained tokens
  int64_t heads(int64_t layer) const;    // attention.head_count
  int64_t kv_heads(int64_t layer) const; // attention.head_count_kv, else heads
  // attention.key_length, else width / heads of the first layer with heads; attention.value_length, likewise;
  // rope.dimension_count, else k_dim. Layers with a window prefer names with _swa.
  int64_t k_dim(int64_t layer, bool slides = false) const;
  int64_t v_dim(int64_t layer, bool slides = false) const;
  int64_t rope_dims(int64_t k_dim, bool slides = false) const;
  // attention.key_length_mla and value_length_mla, else as above.
  int64_t latent_k_dim(int64_t layer) const;
  int64_t latent_v_dim(int64_t layer) const;
  // attention.sliding_window; required without a fallback.
  int64_t window(std::optional<int64_t> fallback = {}) const;
  double sliding_rope_base(std::optional<double> fallback = {}) const; // rope.freq_base_swa, else rope.freq_base
  float norm_epsilon() const;                                          // attention.layer_norm_rms_epsilon
  float layer_norm_epsilon() const;                                    // attention.layer_norm_epsilon
  bool has_rope_sections() const;            // the first two of rope.dimension_sections are positive
  int64_t original_context() const;          // rope.scaling.original_context_length, else context_length
  int64_t ffn_width(int64_t layer) const;    // feed_forward_length
  int64_t expert_width(int64_t layer) const; // expert_feed_forward_length, else feed_forward_length
  int64_t experts() const;                   // expert_count; 0: dense
  int64_t experts_used(int64_t layer) const; // expert_used_count
  // Whether kv_heads is not 0, as some hybrids mark recurrent layers.
  bool has_attention(int64_t layer) const;
  // Whether a layer has a window. attention.sliding_window_pattern has flags per layer, or n: of every n layers all but
  // the last (or first) have one. `fallback`: default n. Draft layers need a flag.
  enum class Sees : uint8_t { all_last, all_first };
  bool slides(int64_t layer, int64_t fallback, Sees which = Sees::all_last) const;
  // From expert_count, leading_dense_block_count and interleave_moe_layer_step.
  bool has_experts(int64_t layer) const;
  // From attention.recurrent_layers, else all but every full_attention_interval-th. Never true for draft layers.
  bool is_recurrent(int64_t layer, int64_t interval = 4) const;
  // The value of ssm.NAME, at least 1.
  int64_t ssm(std::string_view name) const;

  // Throws "FILE: KEY is VALUE: WHAT not supported yet".
  [[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view what) const;
  // Throws such an Error for a hyperparameter that changes the computation, has no neutral value and was not read.
  // Builders read a key without using it to accept any value.
  void refuse_ignored() const;

 private:
  float epsilon(std::string_view name) const;
  int64_t in_range(std::string_view name, int64_t value, int64_t low, int64_t high) const;
  const gguf::Value* array(std::string_view name) const;
  int64_t head_dim(std::string_view name, int64_t layer) const;
  std::string of_sliding(std::string_view name, bool slides) const;
  int64_t layer_of_array(std::string_view name, const gguf::Value& array, int64_t layer) const;
  std::string asked(std::string_view name) const; // returns the key and records that it was read

  const gguf::File& file_;
  std::string architecture_;
  mutable std::set<std::string, std::less<>> asked_;
};

} // namespace ridge::models
