// Rewrites a model with other types in one pass by chunks of rows, in some tens of MB: plan types (models/recipes.h,
// convert/type_search.h), Requantization, write().
#pragma once

#include "gguf/imatrix.h"
#include "gguf/split_writer.h"
#include "gguf/writer.h"
#include "models/adapters/weight_change.h"
#include "models/file/planar.h"
#include "models/recipes.h"
#include "quant/encode/encode.h"
#include "quant/error_stats.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert {

// Tensors as rows of f32 in any format.
class WeightSource {
 public:
  WeightSource(const gguf::File& file, const gguf::Tensor& tensor);
  WeightSource(const gguf::File& file, models::PlanarWeight weight);

  std::string_view name() const { return name_; }
  const std::vector<int64_t>& dims() const { return dims_; } // dims[0] contiguous
  // For planar weights: the executors' type, which no file has.
  gguf::TensorType type() const { return type_; }
  bool has_weights() const { return type_.format() != nullptr; }
  bool is_planar() const { return planar_ != nullptr; }
  bool is_changed() const { return change_ != nullptr; }
  bool is_packed() const { return has_weights() && type_.format()->packed; }
  uint64_t bytes() const { return planar_ ? planar_->file_bytes() : tensor_->data.size(); }

  int64_t cols() const { return dims_[0]; }
  int64_t rows() const;
  int64_t matrices() const { return dims_.size() > 2 ? rows() / dims_[1] : 1; }
  int64_t weights() const { return rows() * cols(); }

  // Decodes [first, first + count) to count * cols() floats. Requires has_weights(). Thread-safe.
  void decode(int64_t first, int64_t count, float* out) const;
  // Adds the adapters' changes to decode()'s rows.
  void merge(std::span<const models::ScaledAdapter> adapters);
  // The encoded rows. Not for planar weights.
  std::span<const std::byte> packed(int64_t first, int64_t count) const;
  // Releases pages that are not needed soon (gguf::File::release).
  void release(int64_t first, int64_t count) const;

  gguf::TensorInfo info() const { return {std::string(name_), type_, dims_}; }

 private:
  const gguf::File* file_;
  const gguf::Tensor* tensor_ = nullptr;
  std::shared_ptr<const models::PlanarWeight> planar_;
  std::shared_ptr<const models::WeightChange> change_;
  std::string_view name_;
  gguf::TensorType type_;
  std::vector<int64_t> dims_;
};

// In file order. The file must outlive them.
std::vector<WeightSource> weight_sources(const gguf::File& file);
// Like weight_sources(), with separate tensors of planar weights.
std::vector<WeightSource> stored_tensors(const gguf::File& file);

struct Rows {
  const float* weights; // [rows][cols]
  int64_t rows, cols;
  // Original encoding, for GPUs; nullptr for planar and scaled weights.
  const quant::FormatInfo* packed_format = nullptr;
  const std::byte* packed = nullptr;
};
using EncodeRows =
    std::function<void(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out)>;
// Uses all threads; encode_tensor() instead gives each thread pieces of the rows.
void encode_on_cpu(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out);

// Column importance per matrix; empty: uniform.
std::vector<std::vector<float>> importance_of(const gguf::Imatrix* imatrix, const WeightSource& source);

// Factors for weights before encoding; empty: 1.
struct Scaling {
  std::vector<float> rows, cols;
};

inline constexpr int64_t kChunkWeights = int64_t{1} << 22; // 16 MB of f32 where the encoder takes it whole

struct StageSeconds {
  double reading = 0, encoding = 0, measuring = 0, writing = 0;
  StageSeconds& operator+=(const StageSeconds& other);
};

// Encodes at least a row and about `chunk_weights` at a time; `sink` gets bytes in order. Returns the error. Throws
// Error with tensor and row for NaN, infinite weights and, with check_range, weights beyond the type's range.
quant::ErrorStats encode_tensor(const WeightSource& source, quant::Type type,
                                const std::vector<std::vector<float>>& importance, const EncodeRows& encode,
                                const std::function<void(std::span<const std::byte>)>& sink, bool check_range = false,
                                const Scaling& scaling = {}, StageSeconds* seconds = nullptr,
                                int64_t chunk_weights = kChunkWeights);

struct TensorResult {
  std::string_view name, from, to;
  std::vector<int64_t> dims;
  int64_t weights;
  uint64_t bytes_before, bytes;
  bool encoded;
  quant::ErrorStats error;
  StageSeconds seconds;
};

// From convert/calibrated.h.
struct Prepared {
  std::vector<std::byte> bytes;
  quant::ErrorStats error;
};

struct Requantization {
  const gguf::File* file;
  std::vector<WeightSource> sources;
  std::vector<gguf::TensorType> types; // output types, one per source
  gguf::Metadata metadata;

  std::vector<gguf::TensorInfo> infos() const;
  bool is_output(const WeightSource& source) const;                      // or the table if tied
  uint64_t bytes() const { return gguf::file_bytes(metadata, infos()); } // as a single file
};

// Types of `recipe` and updated metadata. nullptr: keeps all types.
Requantization plan_requantization(const gguf::File& file, const models::Recipe* recipe,
                                   const models::RecipeOptions& options, const gguf::Imatrix* imatrix);
// Throws Error for unwritable types and for repacking without permission; planar weights may always be repacked for
// other programs.
void check_requantization(const Requantization& plan, bool allow_requantize);
// general.file_type of a mix: the simplest recipe of the most common type.
uint32_t dominant_file_type(const Requantization& plan);

struct RequantizeOutput {
  std::string path;
  uint64_t max_file_bytes = 0;
};

// Calls done(result) per tensor and progress(done, total weights) per chunk, if set. Asks `prepared` for each tensor in
// file order; nullptr: encodes or copies here. Returns the written paths.
std::vector<std::string> write(const Requantization& plan, const RequantizeOutput& output, const gguf::Imatrix* imatrix,
                               const EncodeRows& encode,
                               const std::function<const Prepared*(std::string_view)>& prepared,
                               const std::function<void(const TensorResult&)>& done,
                               const std::function<void(int64_t done, int64_t total)>& progress);

} // namespace ridge::convert
