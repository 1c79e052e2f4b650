// Quantized checkpoints in published layouts: conversion and runtime form must keep the weights.
#include "checkpoint.h"
#include "convert/import/import.h"
#include "convert/requantize.h"
#include "core/error.h"
#include "core/half.h"
#include "gguf/gguf.h"
#include "models/file/planar.h"
#include "models/model.h"
#include "support/numerics.h"

#include <algorithm>
#include <array>
#include <numeric>

using namespace ridge;
using namespace ridge::tests;
using models::PlanarWeight;

namespace {

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(core::f16_from_f32(value));
  return out;
}

float rounded(float value) { return core::f32_from_f16(core::f16_from_f32(value)); }

// A bit stream of number(i), lowest bits first.
template <typename Number>
std::vector<uint32_t> stream(int64_t count, int bits, Number&& number) {
  std::vector<uint32_t> words((count * bits + 31) / 32);
  for (int64_t i = 0; i < count; ++i)
    for (int b = 0; b < bits; ++b)
      if (number(i) >> b & 1) words[(i * bits + b) / 32] |= 1u << ((i * bits + b) % 32);
  return words;
}

struct Affine {
  std::vector<int> code, zero;
  std::vector<float> scale;
  int64_t cols, groups;
  double weight(int64_t r, int64_t c, int64_t g) const {
    return static_cast<double>(scale[r * groups + g]) * (code[r * cols + c] - zero[r * groups + g]);
  }
};
Affine random_affine(Checkpoint& c, int64_t rows, int64_t cols, int64_t groups, int bits, bool symmetric) {
  Affine a{{}, {}, {}, cols, groups};
  for (int64_t i = 0; i < rows * cols; ++i) a.code.push_back(static_cast<int>(c.integer(0, (1 << bits) - 1)));
  for (int64_t i = 0; i < rows * groups; ++i) {
    a.scale.push_back(rounded(0.001f + 0.02f * std::abs(c.real())));
    a.zero.push_back(symmetric ? 1 << (bits - 1) : static_cast<int>(c.integer(1, (1 << bits) - 1)));
  }
  return a;
}

struct Gptq {
  int bits = 4;
  bool symmetric = false, act_order = false, v2 = false;

  Numbers operator()(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) const {
    const int64_t groups = cols / 32;
    const Affine a = random_affine(c, rows, cols, groups, bits, symmetric);
    std::vector<int32_t> group_of(cols);
    for (int64_t i = 0; i < cols; ++i) group_of[i] = static_cast<int32_t>(i / 32);
    if (act_order) std::shuffle(group_of.begin(), group_of.end(), c.random);
    std::vector<uint32_t> codes(cols * bits / 32 * rows), zeros;
    for (int64_t r = 0; r < rows; ++r) {
      const auto words = stream(cols, bits, [&](int64_t i) { return a.code[r * cols + i]; });
      for (size_t w = 0; w < words.size(); ++w) codes[w * rows + r] = words[w];
    }
    std::vector<float> scales;
    for (int64_t g = 0; g < groups; ++g) {
      const auto words = stream(rows, bits, [&](int64_t r) { return a.zero[r * groups + g] - (v2 ? 0 : 1); });
      zeros.insert(zeros.end(), words.begin(), words.end());
      for (int64_t r = 0; r < rows; ++r) scales.push_back(a.scale[r * groups + g]);
    }
    c.file.add(name + ".qweight", "I32", {cols * bits / 32, rows}, codes);
    c.file.add(name + ".qzeros", "I32", {groups, rows * bits / 32}, zeros);
    c.file.add(name + ".scales", "F16", {groups, rows}, halves(scales));
    c.file.add(name + ".g_idx", "I32", {cols}, group_of);
    c.config["quantization_config"] = {
        {"quant_method", "gptq"}, {"bits", bits}, {"checkpoint_format", v2 ? "gptq_v2" : "gptq"}};
    Numbers out;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < cols; ++i) out.push_back(a.weight(r, i, group_of[i]));
    return out;
  }
};

Numbers awq(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int64_t groups = cols / 64;
  const Affine a = random_affine(c, rows, cols, groups, 4, false);
  const auto pack = [&](int64_t height, auto number) {
    std::vector<uint32_t> words;
    for (int64_t h = 0; h < height; ++h)
      for (int64_t r = 0; r < rows; r += 8) {
        uint32_t word = 0;
        for (int i = 0; i < 8; ++i) word |= static_cast<uint32_t>(number(r + kOrder[i], h)) << (4 * i);
        words.push_back(word);
      }
    return words;
  };
  std::vector<float> scales;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t r = 0; r < rows; ++r) scales.push_back(a.scale[r * groups + g]);
  c.file.add(name + ".qweight", "I32", {cols, rows / 8},
             pack(cols, [&](int64_t r, int64_t h) { return a.code[r * cols + h]; }));
  c.file.add(name + ".qzeros", "I32", {groups, rows / 8},
             pack(groups, [&](int64_t r, int64_t g) { return a.zero[r * groups + g]; }));
  c.file.add(name + ".scales", "F16", {groups, rows}, halves(scales));
  c.config["quantization_config"] = {{"quant_method", "awq"}, {"version", "gemm"}};
  Numbers out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) out.push_back(a.weight(r, i, i / 64));
  return out;
}

Numbers nf4(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  constexpr std::array<float, 16> kLevels = {-1.0f,
                                             -0.6961928009986877f,
                                             -0.5250730514526367f,
                                             -0.39491748809814453f,
                                             -0.28444138169288635f,
                                             -0.18477343022823334f,
                                             -0.09105003625154495f,
                                             0.0f,
                                             0.07958029955625534f,
                                             0.16093020141124725f,
                                             0.24611230194568634f,
                                             0.33791524171829224f,
                                             0.44070982933044434f,
                                             0.5626170039176941f,
                                             0.7229568362236023f,
                                             1.0f};
  const int64_t blocks = rows * cols / 64;
  const float offset = 0.125f;
  std::vector<uint8_t> packed, absmax;
  std::vector<float> nested((blocks + 255) / 256, 0.03125f), table(256);
  for (int i = 0; i < 256; ++i) table[i] = static_cast<float>(i - 128) / 128;
  Numbers out;
  for (int64_t b = 0; b < blocks; ++b) {
    absmax.push_back(static_cast<uint8_t>(c.integer(0, 255)));
    const double scale = static_cast<double>(table[absmax.back()]) * nested[b / 256] + offset;
    for (int i = 0; i < 32; ++i) {
      const auto high = c.integer(0, 15), low = c.integer(0, 15);
      packed.push_back(static_cast<uint8_t>(high << 4 | low));
      out.push_back(scale * kLevels[high]);
      out.push_back(scale * kLevels[low]);
    }
  }
  const std::string state = nlohmann::json{
      {"quant_type", "nf4"},
      {"blocksize", 64},
      {"shape", {rows, cols}},
      {"nested_blocksize", 256},
      {"nested_offset", offset}}.dump();
  c.file.add(name + ".weight", "U8", {rows * cols / 2, 1}, packed);
  c.file.add(name + ".weight.absmax", "U8", {blocks}, absmax);
  c.file.add(name + ".weight.nested_absmax", "F32", {std::ssize(nested)}, nested);
  c.file.add(name + ".weight.nested_quant_map", "F32", {256}, table);
  c.file.add(name + ".weight.quant_map", "F32", {16}, std::vector<float>(kLevels.begin(), kLevels.end()));
  c.file.add(name + ".weight.quant_state.bitsandbytes__nf4", "U8", {std::ssize(state)},
             std::vector<char>(state.begin(), state.end()));
  c.config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  return out;
}

Numbers int8(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  std::vector<int8_t> codes;
  std::vector<float> largest;
  Numbers out;
  for (int64_t r = 0; r < rows; ++r) {
    largest.push_back(0.01f + std::abs(c.real()));
    for (int64_t i = 0; i < cols; ++i) {
      codes.push_back(static_cast<int8_t>(c.integer(-127, 127)));
      out.push_back(static_cast<double>(largest.back()) * codes.back() / 127);
    }
  }
  c.file.add(name + ".weight", "I8", {rows, cols}, codes);
  c.file.add(name + ".SCB", "F32", {rows}, largest);
  c.file.add(name + ".weight_format", "U8", {}, std::vector<uint8_t>{0});
  c.config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  return out;
}

double e4m3(int bits) {
  const int field = bits >> 3 & 15, fraction = bits & 7;
  const double magnitude = field == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, field - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}
uint8_t random_e4m3(Checkpoint& c) {
  const auto bits = static_cast<uint8_t>(c.integer(0, 255));
  return (bits & 0x7f) == 0x7f ? 0x40 : bits;
}

Numbers fp8(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  for (int64_t i = 0; i < rows * cols; ++i) codes.push_back(random_e4m3(c));
  for (int64_t i = 0; i < rows / 32 * (cols / 64); ++i) scales.push_back(0.001f * (1 + std::abs(c.real())));
  c.file.add(name + ".weight", "F8_E4M3", {rows, cols}, codes);
  c.file.add(name + ".weight_scale_inv", "F32", {rows / 32, cols / 64}, scales);
  c.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {32, 64}}};
  Numbers out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) out.push_back(e4m3(codes[r * cols + i]) * scales[r / 32 * (cols / 64) + i / 64]);
  return out;
}

Numbers compressed(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  const int64_t groups = cols / 32;
  const Affine a = random_affine(c, rows, cols, groups, 4, false);
  std::vector<uint32_t> codes, zeros(rows / 8 * groups);
  for (int64_t r = 0; r < rows; ++r) {
    const auto words = stream(cols, 4, [&](int64_t i) { return a.code[r * cols + i]; });
    codes.insert(codes.end(), words.begin(), words.end());
    for (int64_t g = 0; g < groups; ++g)
      zeros[r / 8 * groups + g] |= static_cast<uint32_t>(a.zero[r * groups + g]) << (4 * (r % 8));
  }
  c.file.add(name + ".weight_packed", "I32", {rows, cols / 8}, codes);
  c.file.add(name + ".weight_scale", "F16", {rows, groups}, halves(a.scale));
  c.file.add(name + ".weight_zero_point", "I32", {rows / 8, groups}, zeros);
  c.file.add(name + ".weight_shape", "I64", {2}, std::vector<int64_t>{rows, cols});
  c.config["quantization_config"] = {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}};
  Numbers out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) out.push_back(a.weight(r, i, i / 32));
  return out;
}

double e2m1(int nibble) {
  constexpr double kMagnitude[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return nibble & 8 ? -kMagnitude[nibble & 7] : kMagnitude[nibble & 7];
}

template <bool kNv>
Numbers four_bit_floats(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  constexpr int64_t kGroup = kNv ? 16 : 32;
  const float matrix_scale = 0.01f + std::abs(c.real());
  std::vector<uint8_t> packed, scales;
  Numbers out;
  for (int64_t i = 0; i < rows * cols / kGroup; ++i) {
    scales.push_back(kNv ? random_e4m3(c) & 0x7f : static_cast<uint8_t>(c.integer(110, 125)));
    const double scale = kNv ? e4m3(scales.back()) * matrix_scale : std::ldexp(1.0, scales.back() - 127);
    for (int64_t k = 0; k < kGroup / 2; ++k) {
      packed.push_back(static_cast<uint8_t>(c.integer(0, 255)));
      out.push_back(scale * e2m1(packed.back() & 15));
      out.push_back(scale * e2m1(packed.back() >> 4));
    }
  }
  c.file.add(name + (kNv ? ".weight" : ".weight_packed"), "U8", {rows, cols / 2}, packed);
  c.file.add(name + ".weight_scale", kNv ? "F8_E4M3" : "U8", {rows, cols / kGroup}, scales);
  if (kNv) c.file.add(name + ".weight_scale_2", "F32", {}, std::vector<float>{matrix_scale});
  c.config["quantization_config"] = {{"quant_method", kNv ? "modelopt" : "compressed-tensors"}};
  return out;
}

void rename(Checkpoint& c, const std::string& from, const std::string& to, const char* dtype) {
  auto node = c.file.tensors.extract(from);
  node.key() = to;
  node.mapped().dtype = dtype;
  c.file.tensors.insert(std::move(node));
}

// DeepSeek V4: experts in four bits, the rest in eight, with powers of two.
Numbers deepseek(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  Numbers out;
  if (name.ends_with("up_proj")) {
    out = four_bit_floats<false>(c, name, rows, cols);
    rename(c, name + ".weight_packed", name + ".weight", "I8");
    rename(c, name + ".weight_scale", name + ".scale", "F8_E8M0");
  } else {
    std::vector<uint8_t> codes, scales;
    for (int64_t i = 0; i < rows * cols; ++i) codes.push_back(random_e4m3(c));
    for (int64_t i = 0; i < rows / 32 * (cols / 64); ++i) scales.push_back(static_cast<uint8_t>(c.integer(110, 125)));
    for (int64_t i = 0; i < rows * cols; ++i)
      out.push_back(e4m3(codes[i]) * std::ldexp(1.0, scales[i / cols / 32 * (cols / 64) + i % cols / 64] - 127));
    c.file.add(name + ".weight", "F8_E4M3", {rows, cols}, codes);
    c.file.add(name + ".scale", "F8_E8M0", {rows / 32, cols / 64}, scales);
  }
  c.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {32, 64}}};
  return out;
}

// BitNet: byte row r holds rows r, r + rows / 4 and so on.
template <bool kMultiplies>
Numbers bitnet(Checkpoint& c, const std::string& name, int64_t rows, int64_t cols) {
  std::vector<uint8_t> packed(rows / 4 * cols);
  Numbers out(rows * cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < cols; ++i) {
      const auto code = static_cast<uint8_t>(c.integer(0, 2));
      packed[r % (rows / 4) * cols + i] |= static_cast<uint8_t>(code << (2 * (r / (rows / 4))));
      out[r * cols + i] = (code - 1) * (kMultiplies ? 0.5 : 2);
    }
  c.file.add(name + ".weight", "U8", {rows / 4, cols}, packed);
  c.file.add(name + ".weight_scale", "F32", {1}, std::vector<float>{0.5f});
  c.config["quantization_config"] = {{"quant_method", "bitnet"}};
  if (kMultiplies) c.config["quantization_config"]["linear_class"] = "autobitlinear";
  return out;
}

// Compares the runtime form, with columns in input order.
void check_runs_alike(const PlanarWeight& planar, const std::vector<float>& numbers) {
  const quant::FormatInfo& format = quant::format(planar.type());
  const int64_t row_bytes = format.row_bytes(planar.cols());
  std::vector<std::byte> rows(planar.rows() * row_bytes);
  planar.assemble(0, planar.rows(), rows.data());
  std::vector<int32_t> order = planar.input_order();
  if (order.empty()) {
    order.resize(planar.cols());
    std::iota(order.begin(), order.end(), 0);
  }
  REQUIRE(std::ssize(order) == planar.cols());
  std::vector<float> row(planar.cols()), by_input(numbers.size());
  for (int64_t r = 0; r < planar.rows(); ++r) {
    format.decode(rows.data() + r * row_bytes, planar.cols(), row.data());
    for (size_t i = 0; i < order.size(); ++i) by_input[r * planar.cols() + order[i]] = row[i];
  }
  CHECK(nmse(by_input, numbers) < 1e-12); // AFFINE8 rounds its offsets
}

Numbers decoded(const gguf::File& file, const std::string& name, int64_t head_dim) {
  std::vector<float> numbers;
  int64_t rows, cols;
  if (const auto planar = PlanarWeight::find(file, name)) {
    rows = planar->rows(), cols = planar->cols();
    numbers.resize(rows * cols);
    planar->decode(0, rows, numbers.data());
    check_runs_alike(*planar, numbers);
  } else {
    const gguf::Tensor* tensor = file.find_tensor(name);
    REQUIRE(tensor);
    rows = tensor->dims[1], cols = tensor->dims[0];
    numbers.resize(rows * cols);
    tensor->type.format()->decode(tensor->data.data(), rows * cols, numbers.data());
  }
  if (!name.ends_with("attn_q.weight") && !name.ends_with("attn_k.weight")) return {numbers.begin(), numbers.end()};
  Numbers out(rows * cols);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t within = r % head_dim, source = r - within + within % 2 * (head_dim / 2) + within / 2;
    std::copy_n(numbers.begin() + r * cols, cols, out.begin() + source * cols);
  }
  return out;
}

double relative_error(const Numbers& a, const Numbers& b) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (a.at(i) - b[i]) * (a.at(i) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

gguf::File requantized(const gguf::File& file, const models::Recipe* recipe, const std::string& path) {
  const auto plan = convert::plan_requantization(file, recipe, {}, nullptr);
  convert::check_requantization(plan, true);
  convert::write(plan, {path}, nullptr, convert::encode_on_cpu, nullptr, nullptr, nullptr);
  return gguf::File::open(path);
}

// Copies keep all tensors; ordinary types leave no planar ones.
void check_requantizes(const Checkpoint& c, const gguf::File& file) {
  const gguf::File copy = requantized(file, nullptr, c.folder / "copy.gguf");
  REQUIRE(copy.tensors().size() == file.tensors().size());
  for (const gguf::Tensor& tensor : file.tensors()) {
    CAPTURE(tensor.name);
    const gguf::Tensor* same = copy.find_tensor(tensor.name);
    REQUIRE(same);
    CHECK((same->type == tensor.type && same->dims == tensor.dims && std::ranges::equal(same->data, tensor.data)));
  }
  CHECK(copy.get_string("ridge.quant.scheme", "") == file.get_string("ridge.quant.scheme", ""));

  const gguf::File plain = requantized(file, models::find_recipe("F32"), c.folder / "plain.gguf");
  CHECK(plain.get_string("ridge.quant.scheme", "").empty());
  for (const gguf::Tensor& tensor : plain.tensors())
    for (const char* part : {".qdata", ".scales", ".absmax", ".zeros", ".perm", ".scale"})
      CHECK_FALSE(tensor.name.ends_with(part));
  for (const auto& [name, weights] : c.expected) {
    CAPTURE(name);
    CHECK(relative_error(decoded(plain, name, 32), weights) < 1e-7);
  }
  CHECK_NOTHROW(models::build_program(plain));
}

gguf::File check(Checkpoint& c, const Checkpoint::Pack& pack) {
  c.write(pack);
  const std::string out = c.folder / "out.gguf";
  convert::import::convert({c.folder.path(), out});
  gguf::File file = gguf::File::open(out);
  for (const auto& [name, weights] : c.expected) {
    CAPTURE(name);
    CHECK(relative_error(decoded(file, name, 32), weights) < 1e-7);
  }
  CHECK_NOTHROW(models::build_program(file));
  check_requantizes(c, file);
  return file;
}

std::string type_of(const gguf::File& file, const char* name) {
  const gguf::Tensor* tensor = file.find_tensor(name);
  return tensor ? std::string(tensor->type.name()) : "";
}

} // namespace

TEST_CASE("import: GPTQ of every width, symmetric or not, act-order or not, in both formats, keeps its weights") {
  for (const int bits : {2, 3, 4, 8})
    for (const bool symmetric : {false, true})
      for (const bool act_order : {false, true})
        for (const bool v2 : {false, true}) {
          CAPTURE(bits);
          CAPTURE(symmetric);
          CAPTURE(act_order);
          CAPTURE(v2);
          Checkpoint c;
          const gguf::File file = check(c, Gptq{bits, symmetric, act_order, v2});
          if (symmetric && !act_order && bits == 4) CHECK(type_of(file, "blk.0.ffn_up.weight") == "Q4_0");
          if (symmetric && !act_order && bits == 8) CHECK(type_of(file, "blk.0.ffn_up.weight") == "Q8_0");
          CHECK((type_of(file, "blk.0.ffn_up.weight.perm") == "I32") == act_order);
        }
}

TEST_CASE("import: AWQ keeps its weights in planar tensors") {
  Checkpoint c;
  const gguf::File file = check(c, awq);
  CHECK(file.get_string("ridge.quant.scheme") == "affine4");
  CHECK(file.get_string("ridge.quant.source") == "awq");
  CHECK(type_of(file, "blk.0.attn_q.weight.qdata") == "I8");
  CHECK(type_of(file, "blk.0.attn_q.weight.scales") == "F16");
  CHECK(PlanarWeight::find(file, "blk.0.attn_q.weight")->type() == quant::Type::AFFINE4);
}

TEST_CASE("import: NF4 with double quantization, int8, FP8 blocks and compressed-tensors keep their weights") {
  Checkpoint a, b, c, d;
  CHECK(check(a, nf4).get_string("ridge.quant.scheme") == "nf4");
  CHECK(check(b, int8).get_string("ridge.quant.scheme") == "affine8");
  CHECK(check(c, fp8).get_string("ridge.quant.scheme") == "fp8_e4m3");
  CHECK(check(d, compressed).get_string("ridge.quant.scheme") == "affine4");
}

TEST_CASE("import: MXFP4 and NVFP4 become the GGUF types of that name, NVFP4 with the matrix's scale beside it") {
  Checkpoint a, b;
  CHECK(type_of(check(a, four_bit_floats<false>), "blk.0.ffn_up.weight") == "MXFP4");
  const gguf::File file = check(b, four_bit_floats<true>);
  CHECK(type_of(file, "blk.0.ffn_up.weight") == "NVFP4");
  CHECK(type_of(file, "blk.0.ffn_up.scale") == "F32");
}

TEST_CASE("import: FP8 and FP4 of one checkpoint with scales of powers of two keep their weights") {
  Checkpoint c;
  const gguf::File file = check(c, deepseek);
  CHECK(file.get_string("ridge.quant.scheme") == "fp8_e4m3");
  CHECK(type_of(file, "blk.0.ffn_up.weight") == "MXFP4");
}

TEST_CASE("import: BitNet's ternary matrices keep their weights, whether their scale multiplies or divides") {
  Checkpoint a, b;
  CHECK(check(a, bitnet<true>).get_string("ridge.quant.scheme") == "affine2");
  CHECK(check(b, bitnet<false>).get_string("ridge.quant.scheme") == "affine2");
}

TEST_CASE("import: packed parts that are missing, misshapen or of an unknown kind are named") {
  const auto problem = [](const Checkpoint::Pack& pack, const std::function<void(Checkpoint&)>& damage) {
    Checkpoint c;
    c.write(pack);
    damage(c);
    c.save();
    try {
      convert::import::convert({c.folder.path(), c.folder / "out.gguf"});
    } catch (const Error& error) {
      CHECK(!std::filesystem::exists(c.folder / "out.gguf"));
      return std::string(error.what());
    }
    return std::string();
  };
  const auto names = [](const std::string& message, std::string_view part) {
    CAPTURE(message);
    return message.find(part) != std::string::npos;
  };
  const std::string up = "model.layers.0.mlp.up_proj";
  CHECK(names(problem(awq, [&](Checkpoint& c) { c.file.tensors.erase(up + ".qzeros"); }), "up_proj.qzeros is missing"));
  CHECK(names(problem(awq, [&](Checkpoint& c) { c.file.tensors[up + ".scales"].shape = {2, 64}; }), "up_proj.scales"));
  CHECK(names(problem(awq, [&](Checkpoint& c) { c.config.erase("quantization_config"); }), "AWQ or GPTQ"));
  CHECK(names(problem(awq, [&](Checkpoint& c) { c.config["quantization_config"]["version"] = "gemv"; }), "gemm"));
  CHECK(names(problem(awq, [&](Checkpoint& c) { c.config["quantization_config"]["quant_method"] = "hqq"; }), "hqq"));
  CHECK(names(
      problem(Gptq{}, [&](Checkpoint& c) { c.file.add(up + ".g_idx", "I32", {64}, std::vector<int32_t>(64, 0)); }),
      "up_proj.g_idx"));
  CHECK(names(
      problem(Gptq{}, [&](Checkpoint& c) { c.file.add(up + ".g_idx", "I32", {64}, std::vector<int32_t>(64, -7)); }),
      "up_proj.g_idx"));
  CHECK(names(
      problem(nf4,
              [&](Checkpoint& c) { c.file.add(up + ".weight.quant_map", "F32", {16}, std::vector<float>(16, 0.5f)); }),
      "quant_map"));
  CHECK(names(problem(fp8, [&](Checkpoint& c) { c.file.tensors[up + ".weight"].data[5] = '\x7f'; }), "column 5"));
  CHECK(names(
      problem(Checkpoint::plain, [&](Checkpoint& c) { c.file.add("model.extra", "F32", {1}, std::vector<float>{0}); }),
      "model.extra is not used"));
  CHECK(names(problem(Checkpoint::plain, [&](Checkpoint& c) { c.config["hidden_size"] = 128; }),
              "its 32 rows do not match the heads"));
}
