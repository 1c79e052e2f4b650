// Common setup of quantize requests.
#pragma once

#include "convert/calibrated.h"
#include "convert/quantize.h"
#include "convert/sensitivity.h"
#include "convert/type_search.h"
#include "kernels/cuda/encode/encode.h"

#include <memory>
#include <optional>

namespace ridge::convert {

class QuantizeSetup {
 public:
  // Both must outlive this. Throws Error for files, usage Errors for options.
  QuantizeSetup(const api::QuantizeRequest& request, const QuantizeSteps& steps);

  const api::QuantizeRequest& request;
  const QuantizeSteps& steps;
  const gguf::File file;
  bool is_calibrated() const { return request.method != "plain"; }
  const gguf::Imatrix* importance() const { return importance_ ? &*importance_ : nullptr; }
  const models::RecipeOptions& options() const { return options_; }
  EncodeRows encode() const;

  // For methods other than plain. `program` is plan.file's; all arguments must outlive the result.
  // alone: see CalibrationMethod; then without tuning.
  std::unique_ptr<CalibratedQuantizer> calibrate(const Requantization& plan, const core::Program& program,
                                                 const std::function<void()>& between_steps, bool alone = false) const;
  // nullptr and a note if the model cannot run; then typical values apply.
  std::unique_ptr<DivergenceMeter> make_meter() const;

  // Candidates per source, with their divergence in nats by the meter, after feedback and rounding if these are asked
  // for, or, without it, typical loss. `bits_per_weight`: approximate target.
  std::vector<std::vector<TypeChoice>> find_choices(const Requantization& plan, const DivergenceMeter* meter,
                                                    double bits_per_weight) const;
  // Bytes of fixed tensors; weights of the others.
  struct Rest {
    uint64_t bytes = 0;
    int64_t weights = 0;
  };
  Rest rest_without_searched(const Requantization& plan) const;

 private:
  bool runs_on_gpu() const;
  core::MakeExecutor executors() const;
  std::vector<std::vector<int32_t>> chunks_of_text(const core::Program& program, int64_t tokens) const;

  std::optional<gguf::Imatrix> importance_;
  models::RecipeOptions options_;
  std::unique_ptr<kernels::cuda::Encoder> gpu_;
};

// Returns the sum of losses.
double take_choices(Requantization& plan, const std::vector<std::vector<TypeChoice>>& choices,
                    const std::vector<int>& chosen);

// Throws a usage Error that lists names.
const models::Recipe& parse_recipe(const std::string& name);

} // namespace ridge::convert
