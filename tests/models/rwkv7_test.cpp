// RWKV 7's formulas in double precision; the reference has no such model.
#include "kernels/cpu/executor/executor.h"
#include "models/model.h"

#include "support/recipes/recipe_runs.h"

using namespace ridge;

namespace {

using Row = std::vector<double>;

constexpr int64_t kLayers = 3, kDim = 8, kHeads = 3, kWidth = kDim * kHeads, kHidden = 40, kVocab = 30;

struct Shape {
  bool own;
  bool gated;
  bool has_norm;
};

tests::Recipe recipe_of(const Shape& shape) {
  using Json = nlohmann::ordered_json;
  const std::string arch = shape.own ? "rwkv7" : "arwkv7";
  constexpr int kUint = 4, kFloat = 6, kText = 8;
  Json metadata = {{"general.architecture", kText, arch}};
  const auto key = [&](const char* name, int type, const Json& value) {
    metadata.push_back({arch + "." + name, type, value});
  };
  key("context_length", kUint, 256);
  key("embedding_length", kUint, kWidth);
  key("block_count", kUint, kLayers);
  key("feed_forward_length", kUint, kHidden);
  key("wkv.head_size", kUint, kDim);
  key("token_shift_count", kUint, shape.own ? 2 : 1);
  key(shape.own ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", kFloat, 1e-5);
  Json tensors = Json::array();
  const auto add = [&](const std::string& name, Json dims, double offset, double amplitude) {
    tensors.push_back({name, std::move(dims), offset, amplitude});
  };
  const auto matrix = [&](const std::string& name, int64_t cols, int64_t rows) {
    add(name + ".weight", {cols, rows}, 0, 1 / std::sqrt(static_cast<double>(cols)));
  };
  const auto vector = [&](const std::string& name, double offset) { add(name, {kWidth}, offset, 0.3); };
  const auto norm = [&](const std::string& name) {
    vector(name + ".weight", 1);
    if (shape.own) vector(name + ".bias", 0);
  };
  matrix("token_embd", kWidth, kVocab);
  matrix("output", kWidth, kVocab);
  norm("output_norm");
  if (shape.own) norm("token_embd_norm");
  for (int64_t il = 0; il < kLayers; ++il) {
    const std::string blk = fmt::format("blk.{}.", il), mix = blk + "time_mix_";
    norm(blk + "attn_norm");
    add(mix + "lerp_fused.weight", {kWidth, 1, 1, shape.gated ? 6 : 5}, 0.5, 0.5);
    for (const char* name : {"receptance", "key", "value", "output"}) matrix(mix + name, kWidth, kWidth);
    for (const std::string which : {"w", "a", "v"}) {
      vector(mix + which + "0.weight", 0);
      matrix(mix + which + "1", kWidth, 5);
      matrix(mix + which + "2", 5, kWidth);
    }
    if (shape.gated) matrix(mix + "g1", kWidth, 7), matrix(mix + "g2", 7, kWidth);
    for (const char* name : {"k_k", "k_a", "r_k"}) vector(mix + name + ".weight", 0.5);
    if (shape.has_norm) vector(mix + "ln.weight", 1), vector(mix + "ln.bias", 0);
    if (shape.own) {
      norm(blk + "attn_norm_2");
      vector(blk + "channel_mix_lerp_k.weight", 0.5);
      matrix(blk + "channel_mix_key", kWidth, kHidden);
      matrix(blk + "channel_mix_value", kHidden, kWidth);
    } else {
      norm(blk + "ffn_norm");
      matrix(blk + "ffn_gate", kWidth, kHidden);
      matrix(blk + "ffn_up", kWidth, kHidden);
      matrix(blk + "ffn_down", kHidden, kWidth);
    }
  }
  return {arch, Json{{"seed", 7}, {"vocab", kVocab}, {"metadata", metadata}, {"tensors", tensors}}};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class Model {
 public:
  Model(const gguf::File& file, const Shape& shape) : file_(file), shape_(shape), layers_(kLayers) {}

  Row next(int32_t token) {
    Row x(kWidth);
    const Row table = numbers("token_embd.weight");
    for (int64_t i = 0; i < kWidth; ++i) x[i] = table[token * kWidth + i];
    if (shape_.own) x = normed(x, "token_embd_norm");
    Row first;
    for (int64_t il = 0; il < kLayers; ++il) {
      add(x, time_mix(normed(x, blk(il) + "attn_norm"), il, first));
      add(x,
          shape_.own ? channel_mix(normed(x, blk(il) + "attn_norm_2"), il) : ffn(normed(x, blk(il) + "ffn_norm"), il));
    }
    return product("output", normed(x, "output_norm"));
  }

 private:
  struct Layer {
    Row mixed = Row(kWidth, 0.0), fed = Row(kWidth, 0.0);
    Row s = Row(kHeads * kDim * kDim, 0.0);
  };

  static std::string blk(int64_t il) { return fmt::format("blk.{}.", il); }
  static void add(Row& to, const Row& x) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += x[i];
  }
  Row numbers(const std::string& name) const {
    const gguf::Tensor* tensor = file_.find_tensor(name);
    REQUIRE_MESSAGE(tensor, name);
    const auto* data = reinterpret_cast<const float*>(tensor->data.data());
    return Row(data, data + tensor->weights());
  }
  Row product(const std::string& name, const Row& x) const {
    const Row w = numbers(name + ".weight");
    Row y(w.size() / x.size(), 0.0);
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += w[r * x.size() + i] * x[i];
    return y;
  }
  Row normed(Row x, const std::string& name) const {
    return scaled(shape_.own ? centered(std::move(x), kWidth, 1e-5) : rms(std::move(x)), name);
  }
  static Row rms(Row x) {
    double sum = 0;
    for (const double e : x) sum += e * e;
    for (double& e : x) e /= std::sqrt(sum / kWidth + 1e-5);
    return x;
  }
  static Row centered(Row x, int64_t group, double epsilon) {
    for (auto at = x.begin(); at != x.end(); at += group) {
      const double mean = std::reduce(at, at + group) / static_cast<double>(group);
      double squares = 0;
      for (auto e = at; e != at + group; ++e) *e -= mean, squares += *e * *e;
      for (auto e = at; e != at + group; ++e) *e /= std::sqrt(squares / static_cast<double>(group) + epsilon);
    }
    return x;
  }
  Row scaled(Row x, const std::string& name) const {
    const Row w = numbers(name + ".weight");
    for (size_t i = 0; i < x.size(); ++i) x[i] *= w[i];
    if (file_.find_tensor(name + ".bias")) add(x, numbers(name + ".bias"));
    return x;
  }
  // Interpolates x with the previous token's.
  static Row lerp_with_previous(const Row& x, const Row& before, const Row& shares, int64_t place) {
    Row y = x;
    for (int64_t i = 0; i < kWidth; ++i) y[i] += shares[place * kWidth + i] * (before[i] - x[i]);
    return y;
  }

  Row time_mix(const Row& x, int64_t il, Row& first) {
    const std::string mix = blk(il) + "time_mix_";
    const Row before = std::exchange(layers_[il].mixed, x), shares = numbers(mix + "lerp_fused.weight");
    const Row xw = lerp_with_previous(x, before, shares, 1), xv = lerp_with_previous(x, before, shares, 3),
              xa = lerp_with_previous(x, before, shares, 4);
    Row r = product(mix + "receptance", lerp_with_previous(x, before, shares, 0)),
        k = product(mix + "key", lerp_with_previous(x, before, shares, 2)), v = product(mix + "value", xv);
    Row inner = product(mix + "w1", xw);
    for (double& e : inner) e = std::tanh(e);
    Row w = product(mix + "w2", inner), a = product(mix + "a2", product(mix + "a1", xa));
    add(w, numbers(mix + "w0.weight"));
    add(a, numbers(mix + "a0.weight"));
    if (il == 0) {
      first = v;
    } else {
      Row share = product(mix + "v2", product(mix + "v1", xv));
      add(share, numbers(mix + "v0.weight"));
      for (int64_t i = 0; i < kWidth; ++i) v[i] += (first[i] - v[i]) * sigmoid(share[i]);
    }
    const Row k_k = numbers(mix + "k_k.weight"), k_a = numbers(mix + "k_a.weight"), r_k = numbers(mix + "r_k.weight");
    Row y(kWidth), bonus(kHeads, 0.0);
    for (int64_t h = 0; h < kHeads; ++h) {
      Row kk(kDim), decay(kDim), key(kDim);
      double length = 0;
      for (int64_t i = 0; i < kDim; ++i) {
        const int64_t at = h * kDim + i;
        a[at] = sigmoid(a[at]);
        decay[i] = std::exp(-std::exp(-0.5) * sigmoid(w[at]));
        kk[i] = k[at] * k_k[at];
        length += kk[i] * kk[i];
        key[i] = k[at] * (1 + (a[at] - 1) * k_a[at]);
        bonus[h] += r[at] * key[i] * r_k[at];
      }
      for (double& e : kk) e /= std::sqrt(length);
      for (int64_t j = 0; j < kDim; ++j) {
        double* s = layers_[il].s.data() + (h * kDim + j) * kDim;
        double found = 0, out = 0;
        for (int64_t i = 0; i < kDim; ++i) found += s[i] * kk[i];
        for (int64_t i = 0; i < kDim; ++i) {
          s[i] = s[i] * decay[i] - found * kk[i] * a[h * kDim + i] + v[h * kDim + j] * key[i];
          out += s[i] * r[h * kDim + i];
        }
        y[h * kDim + j] = out;
      }
    }
    if (shape_.has_norm) y = scaled(centered(std::move(y), kDim, 64e-5), mix + "ln");
    for (int64_t i = 0; i < kWidth; ++i) y[i] += bonus[i / kDim] * v[i];
    if (shape_.gated) {
      Row gate = product(mix + "g1", lerp_with_previous(x, before, shares, 5));
      for (double& e : gate) e = sigmoid(e);
      const Row g = product(mix + "g2", gate);
      for (int64_t i = 0; i < kWidth; ++i) y[i] *= g[i];
    }
    return product(mix + "output", y);
  }

  Row channel_mix(const Row& x, int64_t il) {
    const Row before = std::exchange(layers_[il].fed, x);
    Row k = product(blk(il) + "channel_mix_key",
                    lerp_with_previous(x, before, numbers(blk(il) + "channel_mix_lerp_k.weight"), 0));
    for (double& e : k) e = e > 0 ? e * e : 0;
    return product(blk(il) + "channel_mix_value", k);
  }

  Row ffn(const Row& x, int64_t il) const {
    const Row gate = product(blk(il) + "ffn_gate", x);
    Row up = product(blk(il) + "ffn_up", x);
    for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] * sigmoid(gate[i]);
    return product(blk(il) + "ffn_down", up);
  }

  const gguf::File& file_;
  const Shape shape_;
  std::vector<Layer> layers_;
};

} // namespace

TEST_CASE("rwkv7 and arwkv7: logits are what their formulas give, in pieces and after going back, too") {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 40; ++i) ids.push_back(i * 17 % kVocab);
  for (const Shape shape : {Shape{true, true, true}, Shape{false, true, true}, Shape{false, false, false}}) {
    CAPTURE(shape.own);
    CAPTURE(shape.gated);
    const gguf::File file = recipe_of(shape).open();
    Model model(file, shape);
    std::vector<float> expected;
    for (const int32_t id : ids)
      for (const double logit : model.next(id)) expected.push_back(static_cast<float>(logit));
    const core::Program program = models::build_program(file);
    const auto make = kernels::cpu::make_cpu_executor;
    const core::ExecutorConfig config = tests::exact_config();
    CHECK(tests::nmse(tests::in_pieces(make, program, config, ids, ids.size()), expected) <= 1e-9);
    for (const size_t size : {1, 7})
      CHECK(tests::nmse(tests::in_pieces(make, program, config, ids, size), expected) <= 1e-9);
    CHECK(tests::nmse(tests::after_going_back(make, program, config, ids), expected) <= 1e-9);
    CHECK(tests::nmse(tests::in_pieces(make, program, tests::fast_config(), ids, 7), expected) <= 1e-4);
  }
}
