// Which tensors a GGUF file has and what of a checkpoint each is made of. The checkpoint's modules are looked up one
// after the other, in the order in which a model uses them, by the rules of the architecture and those that most share.
#pragma once

#include "convert/import/names.h"
#include "convert/import/output.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

class Plan {
 public:
  // `type` is for matrices that the checkpoint does not quantize; nothing: what they are. All must outlive the Plan.
  Plan(const gguf::Safetensors& tensors, const Config& config, std::optional<quant::Type> type);

  // Throws Error for a tensor without a place in the model, or that cannot be converted.
  void run();

  std::vector<Output> outputs;
  std::vector<gguf::TensorInfo> shapes;              // of the model's tensors, as if all were plain numbers
  std::string planar_scheme;                         // of models/planar.h; empty: no matrix needs it
  bool has_drafts = false;                           // draft layers, which are left out
  std::map<std::string, std::vector<float>> numbers; // hyperparameters that tensors hold: one of each layer
  const std::string& method() const { return reader_.method(); }

 private:
  struct Made {
    std::vector<Matrix> matrices; // one, or the experts'
    bool vectors;                 // with one column
  };
  void add_levels(const std::string& from, const std::string& to,
                  const std::vector<std::span<const models::TensorRule>>& levels);
  void add_rules(const std::string& from, const std::string& to, std::span<const models::TensorRule> shared);
  bool add_rule(const std::string& from, const std::string& to, const models::TensorRule& rule);
  bool add_ones(const std::string& to, const models::TensorRule& rule);
  void add_constant(const std::string& name, const std::vector<float>& values);
  void add_module(const std::string& from, const std::string& to, const models::TensorRule& rule);
  void add_output_matrix();
  void add_constants();
  void read_numbers();
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
