// Tensors of synthetic models.
#include "models/synthetic.h"

#include <fmt/format.h>

#include <utility>

namespace ridge::models {
namespace {

class TensorList {
 public:
  explicit TensorList(const Shape& shape) : s_(shape) {}

  std::vector<gguf::TensorInfo> all() {
    const Shape& s = s_;
    matrix("token_embd", {s.width, s.vocab});
    if (s.has('R')) norm("token_embd_norm");
    for (int64_t il = 0; il < s.layers + s.draft_layers; ++il) {
      blk_ = fmt::format("blk.{}.", il);
      norm("attn_norm");
      const char kind = s.kind_of(il);
      if (s.compresses())
        compressed_attention(kind);
      else if (kind == 'A' || kind == 'W')
        s.latent > 0 ? latent_attention() : attention(kind);
      if (kind == 'D') delta_net();
      if (kind == 'K') kimi_delta();
      if (kind == 'M') mamba2();
      if (kind == 'S') scan();
      if (kind == 'R') rwkv7(il == 0);
      if (kind == 'C') short_conv();
      if (kind == 'L') lightning();
      if (kind == 'F') feed_forward(false);
      if (s.has('F') || s.has('R') || s.ffn_width == 0) continue;
      if (gemma()) gemma_norms();
      const bool other_name = s.has('D') || s.architecture == "glm4moe" || gpt_oss();
      norm(other_name ? "post_attention_norm" : "ffn_norm");
      feed_forward(true, il);
      if (s.architecture == "minimax-m3" && il >= s.dense_layers) block_indexer();
      if (il >= s.layers) draft_head();
    }
    blk_.clear();
    if (s.compresses()) hyper("output_hc", kStreams, 1);
    norm(s.architecture == "lfm2moe" ? "token_embd_norm" : "output_norm");
    if (gemma())
      vector("rope_freqs.weight", s.full_head_dim / 2);
    else
      matrix("output", {s.width, s.vocab});
    if (phimoe()) vector("output.bias", s.vocab);
    return std::move(tensors_);
  }

 private:
  void matrix(std::string_view name, std::vector<int64_t> dims, quant::Type type = quant::Type::F16) {
    tensors_.push_back({fmt::format("{}{}.weight", blk_, name), type, std::move(dims)});
  }
  void vector(std::string_view name, int64_t width) {
    tensors_.push_back({blk_ + std::string(name), quant::Type::F32, {width}});
  }

  void norm(const std::string& name) {
    vector(name + ".weight", s_.width);
    if (phimoe() || s_.has('R')) vector(name + ".bias", s_.width);
  }

  bool phimoe() const { return s_.architecture == "phimoe"; }
  bool fused() const { return s_.architecture == "phi3"; }

  bool gemma() const { return s_.architecture == "gemma4"; }
  bool gpt_oss() const { return s_.architecture == "gpt-oss"; }

  void attention(char kind) {
    const Shape& s = s_;
    const bool other_heads = kind == 'A' && s.full_head_dim > 0;
    const int64_t head_dim = other_heads ? s.full_head_dim : s.head_dim,
                  kv_heads = other_heads ? s.full_kv_heads : s.kv_heads;
    const int64_t q_width = s.heads * head_dim, kv_width = kv_heads * head_dim;
    if (fused()) {
      matrix("attn_qkv", {s.width, q_width + 2 * kv_width});
    } else {
      matrix("attn_q", {s.width, s.output_gate ? 2 * q_width : q_width});
      matrix("attn_k", {s.width, kv_width});
      if (!other_heads) matrix("attn_v", {s.width, kv_width});
    }
    matrix("attn_output", {q_width, s.width});
    if (s.architecture == "laguna") matrix("attn_gate", {s.width, s.heads});
    if (phimoe() || gpt_oss()) vector("attn_output.bias", s.width);
    if (gpt_oss()) vector("attn_sinks.weight", s.heads);
    if (s.architecture == "qwen2" || s.architecture == "glm4moe" || phimoe() || gpt_oss()) {
      vector("attn_q.bias", q_width);
      vector("attn_k.bias", kv_width);
      vector("attn_v.bias", kv_width);
    }
    if (s.architecture.starts_with("qwen3") || s.architecture == "laguna" || s.architecture == "grovemoe" ||
        s.architecture == "minimax-m3" || s.output_gate || s.has('C') || gemma()) {
      vector("attn_q_norm.weight", head_dim);
      vector("attn_k_norm.weight", head_dim);
    }
  }
  void gemma_norms() {
    for (const char* name : {"post_attention_norm.weight", "post_ffw_norm.weight"}) vector(name, s_.width);
    vector("layer_output_scale.weight", 1);
    if (s_.experts == 0) return;
    for (const char* name :
         {"ffn_gate_inp.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"})
      vector(name, s_.width);
    vector("ffn_down_exps.scale", s_.experts);
    dense("", s_.dense_ffn_width, true);
  }
  void latent_attention() {
    const Shape& s = s_;
    const int64_t k_width = s.heads * s.head_dim, nope = s.head_dim - s.rope_dims;
    if (s.query_latent > 0) {
      matrix("attn_q_a", {s.width, s.query_latent});
      vector("attn_q_a_norm.weight", s.query_latent);
      matrix("attn_q_b", {s.query_latent, k_width});
    } else {
      matrix("attn_q", {s.width, k_width});
    }
    matrix("attn_kv_a_mqa", {s.width, s.latent + s.rope_dims});
    vector("attn_kv_a_norm.weight", s.latent);
    matrix("attn_k_b", {nope, s.latent, s.heads});
    matrix("attn_v_b", {s.latent, s.value_dim, s.heads});
    matrix("attn_output", {s.heads * s.value_dim, s.width});
    if (s.index_heads == 0) return;
    for (const char* part : {"weight", "bias"}) vector(fmt::format("indexer.k_norm.{}", part), s.index_dim);
    matrix("indexer.proj", {s.width, s.index_heads});
    matrix("indexer.attn_k", {s.width, s.index_dim});
    matrix("indexer.attn_q_b", {s.query_latent, s.index_heads * s.index_dim});
  }
  // Unused here, required by llama.cpp.
  void block_indexer() {
    const Shape& s = s_;
    matrix("indexer.q_proj", {s.width, s.index_heads * s.index_dim});
    matrix("indexer.k_proj", {s.width, s.index_dim});
    for (const char* norm : {"q_norm", "k_norm"}) vector(fmt::format("indexer.{}.weight", norm), s.index_dim);
  }
  void compressed_attention(char kind) {
    const Shape& s = s_;
    matrix("attn_q_a", {s.width, s.query_latent});
    vector("attn_q_a_norm.weight", s.query_latent);
    matrix("attn_q_b", {s.query_latent, s.heads * s.head_dim});
    matrix("attn_kv", {s.width, s.head_dim});
    vector("attn_kv_a_norm.weight", s.head_dim);
    vector("attn_sinks.weight", s.heads);
    matrix("attn_output_a", {s.heads / kOutputGroups * s.head_dim, kOutputRank, kOutputGroups});
    matrix("attn_output_b", {kOutputGroups * kOutputRank, s.width});
    for (const char* block : {"hc_attn", "hc_ffn"}) hyper(block, kStreams * (kStreams + 2), 3);
    if (kind == 'E') {
      compressor("attn_compressor", s.head_dim, 2, 4);
      compressor("indexer_compressor", s.index_dim, 2, 4);
      matrix("indexer.proj", {s.width, s.index_heads});
      matrix("indexer.attn_q_b", {s.query_latent, s.index_heads * s.index_dim});
    }
    if (kind == 'H') compressor("attn_compressor", s.head_dim, 1, 128);
  }
  void compressor(const std::string& name, int64_t dim, int64_t parts, int64_t ratio) {
    for (const char* matrices : {"_kv", "_gate"}) matrix(name + matrices, {s_.width, parts * dim});
    matrix(name + "_ape", {parts * dim, ratio}, quant::Type::F32);
    vector(name + "_norm.weight", dim);
  }
  void hyper(const std::string& name, int64_t gates, int64_t scales) {
    matrix(name + "_fn", {kStreams * s_.width, gates}, quant::Type::F32);
    vector(name + "_base.weight", gates);
    vector(name + "_scale.weight", scales);
  }
  void lightning() {
    const int64_t width = s_.heads * s_.head_dim;
    matrix("attn_qkv", {s_.width, 3 * width});
    matrix("attn_gate", {s_.width, width});
    vector("attn_norm_2.weight", width);
    matrix("attn_output", {width, s_.width});
  }
  void delta_net() {
    const Shape& s = s_;
    const int64_t mixed = s.inner + 2 * s.inner_groups * s.state;
    matrix("attn_qkv", {s.width, mixed});
    matrix("attn_gate", {s.width, s.inner});
    if (s.architecture == "qwen3next") {
      matrix("ssm_ba", {s.width, 2 * s.inner_heads});
    } else {
      matrix("ssm_alpha", {s.width, s.inner_heads});
      matrix("ssm_beta", {s.width, s.inner_heads});
    }
    matrix("ssm_conv1d", {s.conv_kernel, mixed}, quant::Type::F32);
    vector("ssm_a", s.inner_heads);
    vector("ssm_dt.bias", s.inner_heads);
    vector("ssm_norm.weight", s.state);
    matrix("ssm_out", {s.inner, s.width});
  }
  void kimi_delta() {
    const Shape& s = s_;
    const int64_t inner = s.heads * s.state;
    for (const std::string part : {"q", "k", "v"}) {
      matrix("attn_" + part, {s.width, inner});
      matrix("ssm_conv1d_" + part, {s.conv_kernel, 1, inner}, quant::Type::F32);
    }
    for (const std::string gate : {"ssm_f", "ssm_g"}) {
      matrix(gate + "_a", {s.width, s.state});
      matrix(gate + "_b", {s.state, inner});
    }
    matrix("ssm_beta", {s.width, s.heads});
    tensors_.push_back({blk_ + "ssm_a", quant::Type::F32, {1, s.heads}}); // as llama.cpp requires
    vector("ssm_dt.bias", inner);
    vector("ssm_norm.weight", s.state);
    matrix("attn_output", {inner, s.width});
  }
  void scan() {
    const Shape& s = s_;
    matrix("ssm_in", {s.width, 2 * s.inner});
    matrix("ssm_conv1d", {s.conv_kernel, s.inner}, quant::Type::F32);
    vector("ssm_conv1d.bias", s.inner);
    matrix("ssm_x", {s.inner, s.inner_heads + 2 * s.state});
    matrix("ssm_dt", {s.inner_heads, s.inner});
    vector("ssm_dt.bias", s.inner);
    tensors_.push_back({blk_ + "ssm_a", quant::Type::F32, {s.state, s.inner}});
    vector("ssm_d", s.inner);
    matrix("ssm_out", {s.inner, s.width});
    if (s.architecture != "jamba") return;
    vector("ssm_dt_norm.weight", s.inner_heads);
    for (const char* name : {"ssm_b_norm.weight", "ssm_c_norm.weight"}) vector(name, s.state);
  }
  void rwkv7(bool first) {
    const Shape& s = s_;
    norm("attn_norm_2");
    tensors_.push_back({blk_ + "time_mix_lerp_fused.weight", quant::Type::F32, {s.width, 1, 1, 6}});
    for (const char* name : {"receptance", "key", "value", "output"})
      matrix(fmt::format("time_mix_{}", name), {s.width, s.width});
    const auto low_rank = [&](const std::string& name, int64_t rank, bool has_bias) {
      if (has_bias) vector(name + "0.weight", s.width);
      matrix(name + "1", {s.width, rank});
      matrix(name + "2", {rank, s.width});
    };
    low_rank("time_mix_w", kDecayRank, true);
    low_rank("time_mix_a", kRateRank, true);
    low_rank("time_mix_v", first ? kRateRank : kValueRank, true); // unused in the first layer
    low_rank("time_mix_g", kGateRank, false);
    for (const char* name : {"k_k", "k_a", "r_k"}) vector(fmt::format("time_mix_{}.weight", name), s.width);
    norm("time_mix_ln");
    tensors_.push_back({blk_ + "channel_mix_lerp_k.weight", quant::Type::F32, {s.width, 1, 1}});
    matrix("channel_mix_key", {s.width, s.ffn_width});
    matrix("channel_mix_value", {s.ffn_width, s.width});
  }
  void mamba2() {
    const Shape& s = s_;
    const int64_t mixed = s.inner + 2 * s.inner_groups * s.state;
    matrix("ssm_in", {s.width, s.inner + mixed + s.inner_heads});
    matrix("ssm_conv1d", {s.conv_kernel, mixed}, quant::Type::F32);
    vector("ssm_conv1d.bias", mixed);
    tensors_.push_back({blk_ + "ssm_a", quant::Type::F32, {1, s.inner_heads}});
    tensors_.push_back({blk_ + "ssm_d", quant::Type::F32, {1, s.inner_heads}});
    vector("ssm_dt.bias", s.inner_heads);
    matrix("ssm_norm", {s.inner / s.inner_groups, s.inner_groups}, quant::Type::F32);
    matrix("ssm_out", {s.inner, s.width});
  }
  void short_conv() {
    matrix("shortconv.in_proj", {s_.width, 3 * s_.width});
    matrix("shortconv.conv", {s_.conv_kernel, s_.width}, quant::Type::F32);
    matrix("shortconv.out_proj", {s_.width, s_.width});
  }
  void feed_forward(bool gated, int64_t il = 0) {
    const Shape& s = s_;
    if (s.experts == 0 || il < s.dense_layers || (il + 1) % s.expert_period != 0)
      return dense("", s.dense_ffn_width > 0 ? s.dense_ffn_width : s.ffn_width, gated);
    matrix("ffn_gate_inp", {s.width, s.experts}, quant::Type::F32);
    if (gemma()) {
      matrix("ffn_gate_up_exps", {s.width, 2 * s.ffn_width, s.experts});
    } else {
      matrix("ffn_gate_exps", {s.width, s.ffn_width, s.experts});
      matrix("ffn_up_exps", {s.width, s.ffn_width, s.experts});
    }
    matrix("ffn_down_exps", {s.ffn_width, s.width, s.experts});
    if (gpt_oss()) {
      vector("ffn_gate_inp.bias", s.experts);
      for (const char* name : {"ffn_gate_exps.bias", "ffn_up_exps.bias"})
        tensors_.push_back({blk_ + name, quant::Type::F32, {s.ffn_width, s.experts}});
      tensors_.push_back({blk_ + "ffn_down_exps.bias", quant::Type::F32, {s.width, s.experts}});
    }
    if (s.architecture == "grovemoe") {
      for (const char* name : {"ffn_gate_chexps", "ffn_up_chexps"})
        matrix(name, {s.width, kSharedExpertWidth, s.experts / kSharingExperts});
      matrix("ffn_down_chexps", {kSharedExpertWidth, s.width, s.experts / kSharingExperts});
    }
    if (s.has_sigmoid_gate()) vector("exp_probs_b.bias", s.experts);
    if (s.shared_ffn_width == 0) return;
    if (s.has('D')) vector("ffn_gate_inp_shexp.weight", s.width);
    dense("_shexp", s.shared_ffn_width, gated);
  }
  void draft_head() {
    matrix("nextn.eh_proj", {2 * s_.width, s_.width});
    for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight"})
      vector(name, s_.width);
  }
  void dense(const std::string& suffix, int64_t hidden, bool gated) {
    if (gated && !fused()) matrix("ffn_gate" + suffix, {s_.width, hidden});
    matrix("ffn_up" + suffix, {s_.width, fused() ? 2 * hidden : hidden});
    matrix("ffn_down" + suffix, {hidden, s_.width});
  }

  const Shape& s_;
  std::string blk_;
  std::vector<gguf::TensorInfo> tensors_;
};

} // namespace

std::vector<gguf::TensorInfo> tensors_of(const Shape& shape) { return TensorList(shape).all(); }

} // namespace ridge::models
