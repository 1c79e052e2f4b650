// Plans a GGUF file's tensors: looks up modules in the order of use, by the architecture's rules and shared ones.
#pragma once

#include "convert/import/config/names.h"
#include "convert/import/matrices/output.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

class Plan {
 public:
  // `type`: for unquantized matrices; nullopt: unchanged. Arguments must outlive the Plan.
  Plan(const gguf::Safetensors& tensors, const Config& config, std::optional<quant::Type> type);

  // Throws Error for unknown or unconvertible tensors.
  void run();

  std::vector<Output> outputs;
  std::vector<gguf::TensorInfo> shapes;               // as if unquantized
  std::string planar_scheme;                          // empty: unused
  bool has_drafts = false;                            // skipped draft layers
  std::map<std::string, std::vector<float>> numbers;  // per layer, from tensors
  std::map<std::string, std::vector<uint64_t>> lists; // of one layer, from tensors
  const std::string& method() const { return reader_.method(); }

 private:
  struct Made {
    std::vector<Matrix> matrices;
    bool vectors;
  };
  void add_levels(const std::string& from, const std::string& to,
                  const std::vector<std::span<const models::TensorRule>>& levels);
  void add_draft(int64_t head);
  void add_draft_vocabulary();
  void add_rules(const std::string& from, const std::string& to, std::span<const models::TensorRule> shared);
  bool add_rule(const std::string& from, const std::string& to, const models::TensorRule& rule);
  bool add_integers(const std::string& from, const std::string& to);
  bool add_stacked(const std::string& from, const std::string& to, const models::TensorRule& rule);
  bool add_ones(const std::string& to, const models::TensorRule& rule);
  void add_constant(const std::string& name, const std::vector<float>& values);
  void add_module(const std::string& from, const std::string& to, const models::TensorRule& rule);
  void add_output_matrix();
  void add_constants();
  void read_numbers();
  void read_list(const models::NumberRule& rule);
  void add(Made made, const std::string& name, const models::TensorRule& rule);
  Made of_tensor(const gguf::SafeTensor& tensor, const models::TensorRule& rule) const;
  std::vector<Matrix> changed(Matrix matrix, const models::TensorRule& rule, const std::string& name) const;
  void check_all_used();
  void use(const gguf::SafeTensor* tensor) { used_.insert(tensor->name); }

  const gguf::Safetensors& tensors_;
  const Config& config_;
  const std::optional<quant::Type> type_;
  const Names names_;
  MatrixReader reader_;
  std::set<std::string_view> used_;
};

} // namespace ridge::convert::import
