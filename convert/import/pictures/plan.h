// Tensors of an mmproj file.
#pragma once

#include "convert/import/output.h"
#include "convert/import/pictures/family.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

// False for checkpoints with the language model only.
bool has_encoder(const PictureFamily& family, const gguf::Safetensors& tensors);

class PicturePlan {
 public:
  // `type`: for unquantized matrices; nullopt: unchanged. Arguments must outlive the plan.
  PicturePlan(const gguf::Safetensors& tensors, const PictureFamily& family, const PictureFields& fields,
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
  void add_rules(const std::string& from, const std::string& to, std::span<const PictureRule> rules);
  void add_rule(const std::string& from, const std::string& to, const PictureRule& rule);
  void add(const gguf::SafeTensor& tensor, const std::string& to, Take take);
  void add_matrix(Matrix matrix, const std::string& to, Take take, std::vector<int64_t> dims);
  Matrix taken(Matrix matrix, Take take, const std::string& name) const;
  std::optional<quant::Type> type_of(const gguf::TensorInfo& tensor) const;
  void check_all_used() const;

  const gguf::Safetensors& tensors_;
  const PictureFamily& family_;
  const PictureFields& fields_;
  const std::optional<quant::Type> type_;
  const Tower tower_;
  MatrixReader reader_;
  std::set<std::string_view> used_;
};

} // namespace ridge::convert::import
