// Writes a model again with other types, in one pass over the file, tensor after tensor in chunks of rows. Memory stays
// at some tens of megabytes for models of any size.
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

// Rows that are to be encoded in another type.
struct Rows {
  const float* weights; // [rows][cols]
  int64_t rows, cols;
  // The same rows as the file has them, for a GPU to decode; nullptr for planar and scaled weights.
  const quant::FormatInfo* packed_format = nullptr;
  const std::byte* packed = nullptr;
};
using EncodeRows =
    std::function<void(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out)>;
// The same encoder for what becomes a file: throws Error with tensor and row of a weight that is too large for the
// type. Both must outlive it.
EncodeRows checked(const EncodeRows& encode, const WeightSource& source);
void encode_on_cpu(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out);

// Importance of the columns of each of a tensor's matrices; empty: all columns count the same.
std::vector<std::vector<float>> importance_of(const gguf::Imatrix* imatrix, const WeightSource& source);

// Factors by which a tensor's weights are multiplied before they are encoded; empty: 1.
struct Scaling {
  std::vector<float> rows, cols;
};

inline constexpr int64_t kChunkWeights = int64_t{1} << 22; // 16 MB of f32, and as much again to measure errors

// Seconds spent on each stage: decoding rows to f32, encoding, measuring the error, writing.
struct StageSeconds {
  double reading = 0, encoding = 0, measuring = 0, writing = 0;
  StageSeconds& operator+=(const StageSeconds& other);
};

// Encodes one tensor in another type, `chunk_weights` at a time, but at least a row. `sink` gets its bytes in order.
// Returns the error of the encoding. Throws Error with tensor, row and column of a weight that is NaN or infinite.
quant::ErrorStats encode_tensor(const WeightSource& source, quant::Type type,
                                const std::vector<std::vector<float>>& importance, const EncodeRows& encode,
                                const std::function<void(std::span<const std::byte>)>& sink,
                                const Scaling& scaling = {}, StageSeconds* seconds = nullptr,
                                int64_t chunk_weights = kChunkWeights);

// A tensor before and after.
struct TensorResult {
  std::string_view name, from, to;
  std::vector<int64_t> dims;
  int64_t weights;
  uint64_t bytes_before, bytes;
  bool encoded;            // false: copied as it was
  quant::ErrorStats error; // if it was encoded
  StageSeconds seconds;
};

// A tensor that was encoded elsewhere (convert/calibrated.h).
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
  bool is_output(const WeightSource& source) const; // the output matrix, or the table if it is tied
  uint64_t bytes() const { return gguf::file_bytes(metadata, infos()); } // of the output, in one file
};

// The plan with the types of `recipe` and the file's metadata, updated. recipe nullptr: every tensor keeps its type.
Requantization plan_requantization(const gguf::File& file, const models::Recipe* recipe,
                                   const models::RecipeOptions& options, const gguf::Imatrix* imatrix);
// Throws Error if a type cannot be written, or if a packed tensor would be packed again and that is not allowed. Planar
// weights may always be packed again, because other programs can read them only then.
void check_requantization(const Requantization& plan, bool allow_requantize);
// general.file_type for a mix without a name: that of the simplest recipe of the type that most weights have.
uint32_t dominant_file_type(const Requantization& plan);

struct RequantizeOutput {
  std::string path;
  uint64_t max_file_bytes = 0; // 0: one file
};

// Calls done(result) after each tensor and progress(weights done, all weights) after each chunk; both may be empty.
// Asks `prepared` for each tensor in file order; where it gives nullptr, the tensor is encoded or copied here. Returns
// the paths that were written.
std::vector<std::string> write(const Requantization& plan, const RequantizeOutput& output, const gguf::Imatrix* imatrix,
                               const EncodeRows& encode,
                               const std::function<const Prepared*(std::string_view)>& prepared,
                               const std::function<void(const TensorResult&)>& done,
                               const std::function<void(int64_t done, int64_t total)>& progress);

} // namespace ridge::convert
