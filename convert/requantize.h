// Writes a model again with other types: one pass over the file, tensor after tensor in chunks of rows, so that memory
// stays at some tens of megabytes whatever the model's size.
//
//   plan the types (models/recipes.h, convert/type_search.h)  →  Requantization  →  write()
#pragma once

#include "convert/weight_source.h"
#include "gguf/imatrix.h"
#include "gguf/split_writer.h"
#include "models/recipes.h"
#include "quant/encode.h"
#include "quant/error_stats.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ridge::convert {

// Rows on their way into another type.
struct Rows {
  const float* weights; // [rows][cols]
  int64_t rows, cols;
  // The same rows as the file has them, where that is all there is to know about them: what a GPU decodes by itself.
  const quant::FormatInfo* packed_format = nullptr;
  const std::byte* packed = nullptr;
};
using EncodeRows =
    std::function<void(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out)>;
void encode_on_cpu(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out);

// Importance of the columns of each of a tensor's matrices; empty: all alike.
std::vector<std::vector<float>> importance_of(const gguf::Imatrix* imatrix, const WeightSource& source);

// Factors that a tensor's weights are multiplied with before they are encoded; empty: 1.
struct Scaling {
  std::vector<float> rows, cols;
};

inline constexpr int64_t kChunkWeights = int64_t{1} << 22; // 16 MB of f32, and a copy to measure with

// Where the time went, in seconds: bringing rows in as f32, finding codes, comparing, passing bytes on.
struct StageSeconds {
  double reading = 0, encoding = 0, measuring = 0, writing = 0;
  StageSeconds& operator+=(const StageSeconds& other);
};

// One tensor in another type, `chunk_weights` or a row of it at a time. `sink` gets its bytes in order. Returns what
// was lost; throws Error naming the tensor, row and column where a weight is NaN or infinite.
quant::ErrorStats encode_tensor(const WeightSource& source, quant::Type type,
                                const std::vector<std::vector<float>>& importance, const EncodeRows& encode,
                                const std::function<void(std::span<const std::byte>)>& sink,
                                const Scaling& scaling = {}, StageSeconds* seconds = nullptr,
                                int64_t chunk_weights = kChunkWeights);

// What a tensor of the output is and was.
struct TensorResult {
  std::string_view name, from, to;
  std::vector<int64_t> dims;
  int64_t weights;
  uint64_t bytes_before, bytes;
  bool encoded;            // false: copied as it was
  quant::ErrorStats error; // of encoded ones
  StageSeconds seconds;
};

// Tensors whose bytes were made elsewhere (convert/calibrated.h), by name.
struct Prepared {
  std::vector<std::byte> bytes;
  quant::ErrorStats error;
};

struct Requantization {
  const gguf::File* file;
  std::vector<WeightSource> sources;
  std::vector<gguf::TensorType> types; // of the output, one per source
  gguf::Metadata metadata;

  std::vector<gguf::TensorInfo> infos() const;
  bool is_output(const WeightSource& source) const;                      // the output matrix, under whichever name
  uint64_t bytes() const { return gguf::file_bytes(metadata, infos()); } // of the output, in one file
};

// With types by `recipe`, and metadata carried over and brought up to date. recipe nullptr: every tensor as it is.
Requantization plan_requantization(const gguf::File& file, const models::Recipe* recipe,
                                   const models::RecipeOptions& options, const gguf::Imatrix* imatrix);
// Throws Error where a type cannot be written, or where a packed tensor would be packed again and that is not allowed.
// Planar weights always may be: other programs read them only then.
void check_requantization(const Requantization& plan, bool allow_requantize);
// general.file_type for a mix that has no name: the plainest recipe of the type that most weights have.
uint32_t dominant_file_type(const Requantization& plan);

struct RequantizeOutput {
  std::string path;
  uint64_t max_file_bytes = 0; // 0: one file
};

// Calls done(result) after each tensor and progress(weights done of all) after each chunk; either may be empty.
// `prepared` is asked for each tensor, in file order, and gives nullptr for those that are to be encoded or copied
// here. Returns the paths that were written.
std::vector<std::string> write(const Requantization& plan, const RequantizeOutput& output, const gguf::Imatrix* imatrix,
                               const EncodeRows& encode,
                               const std::function<const Prepared*(std::string_view)>& prepared,
                               const std::function<void(const TensorResult&)>& done,
                               const std::function<void(int64_t done, int64_t total)>& progress);

} // namespace ridge::convert
