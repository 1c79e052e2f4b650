// Tensors of an mmproj file.
#pragma once

#include "convert/import/encoders/family.h"
#include "convert/import/matrices/output.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

// False for checkpoints with the language model only.
bool has_encoder(const EncoderFamily& family, const gguf::Safetensors& tensors);

class EncoderPlan {
 public:
  // `type`: for unquantized matrices; nullopt: unchanged. Arguments must outlive the plan.
  EncoderPlan(const gguf::Safetensors& tensors, const EncoderFamily& family, const EncoderFields& fields,
              std::optional<quant::Type> type);

  // Throws Error for unknown or unconvertible tensors.
  void run();
  // v.token_embd.img_break: a row of the embedding table.
  void add_table_row(const std::string& table, int64_t token);

  std::vector<Output> outputs;

  struct Tower {
    std::string name; // "model.visual."
    std::string root;
  };

 private:
  void add_rules(const std::string& from, const std::string& to, std::span<const EncoderRule> rules);
  void add_rule(const std::string& from, const std::string& to, const EncoderRule& rule);
  void add(const gguf::SafeTensor& tensor, const std::string& to, Take take);
  void add_matrix(Matrix matrix, const std::string& to, Take take, std::vector<int64_t> dims);
  void add_batch_norm(const std::string& from, const std::string& to, Take take);
  void add_sinusoids(const std::string& to);
  std::vector<int64_t> colors_first(const gguf::SafeTensor& tensor, int64_t columns) const;
  Matrix taken(Matrix matrix, Take take, const std::string& name) const;
  std::optional<quant::Type> type_of(const gguf::TensorInfo& tensor) const;
  void check_all_used() const;

  const gguf::Safetensors& tensors_;
  const EncoderFamily& family_;
  const EncoderFields& fields_;
  const std::optional<quant::Type> type_;
  const Tower tower_;
  MatrixReader reader_;
  std::set<std::string_view> used_;
};

} // namespace ridge::convert::import
