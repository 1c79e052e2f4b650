// What every kind of work for a request to quantize begins with: the file and the options, what encodes, what runs the
// model, and the text that it runs on.
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
  // Both must outlive this. Throws Error where a file cannot be read, and a usage Error where an option has a wrong
  // value.
  QuantizeSetup(const core::QuantizeRequest& request, const QuantizeSteps& steps);

  const core::QuantizeRequest& request;
  const QuantizeSteps& steps;
  const gguf::File file;
  bool is_calibrated() const { return request.method != "plain"; }
  const gguf::Imatrix* importance() const { return importance_ ? &*importance_ : nullptr; }
  const models::RecipeOptions& options() const { return options_; }
  EncodeRows encode() const; // on the GPU where there is one

  // Runs the model for a plan with another method than plain. `program` is the file's; all must outlive it.
  std::unique_ptr<CalibratedQuantizer> calibrate(const Requantization& plan, const core::Program& program,
                                                 const std::function<void()>& between_steps) const;
  // Nothing, and a note, where the model cannot run: then what is known of others has to do.
  std::unique_ptr<DivergenceMeter> make_meter() const;

  // The types that each source of the plan may have, and what their errors cost: divergence in nats by the meter, or
  // loss as in other models where it is null. `bits_per_weight`: about what is wanted.
  std::vector<std::vector<TypeChoice>> find_choices(const Requantization& plan, const DivergenceMeter* meter,
                                                    double bits_per_weight) const;
  // Bytes of the plan's file without the tensors that have choices, and the weights of those.
  struct Rest {
    uint64_t bytes = 0;
    int64_t weights = 0;
  };
  Rest without_searched(const Requantization& plan) const;

 private:
  bool runs_on_gpu() const;
  core::MakeExecutor executors() const;
  std::vector<std::vector<int32_t>> chunks_of_text(const core::Program& program, int64_t tokens) const;

  std::optional<gguf::Imatrix> importance_;
  models::RecipeOptions options_;
  std::unique_ptr<kernels::cuda::Encoder> gpu_;
};

// Gives the plan the types that were chosen. Returns the sum of their losses.
double take_choices(Requantization& plan, const std::vector<std::vector<TypeChoice>>& choices,
                    const std::vector<int>& chosen);

// Throws a usage Error with the names that are known.
const models::Recipe& parse_recipe(const std::string& name);

} // namespace ridge::convert
