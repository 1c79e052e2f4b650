#include "convert/requantize.h"

#include "core/clock.h"
#include "core/error.h"
#include "core/strings/printable.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

namespace ridge::convert {
namespace {

constexpr size_t kCopyBytes = size_t{16} << 20;
constexpr int64_t kPieceWeights = 1 << 15;

// Calls work(take) in each thread; take(run) calls run(piece) for the pieces that this thread gets. Throws the error of
// the first piece that has one. OpenMP's threads would spin while the last piece is worked on and the file written.
template <typename Work>
void in_threads(int64_t pieces, const Work& work) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  int64_t piece_of_error = 0;
  const auto take = [&](const auto& run) {
    for (int64_t piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      try {
        run(piece);
      } catch (...) {
        const std::lock_guard guard(mutex);
        if (!error || piece < piece_of_error) error = std::current_exception(), piece_of_error = piece;
      }
    }
  };
  const int64_t threads = std::min<int64_t>(omp_in_parallel() ? 1 : omp_get_max_threads(), pieces);
  {
    std::vector<std::jthread> others;
    try {
      while (std::ssize(others) + 1 < threads) others.emplace_back([&] { work(take); });
    } catch (const std::system_error&) { // fewer, then
    }
    work(take);
  }
  if (error) std::rethrow_exception(error);
}

// Seconds since the last call.
double lap(double& last) {
  const double now = core::seconds_now();
  return now - std::exchange(last, now);
}

// Rows of one tensor on their way: floats, packed, error.
struct Way {
  const WeightSource& source;
  const quant::FormatInfo& format;
  const Scaling& scaling;
  bool check_range;

  void read(int64_t first, int64_t count, float* out) const {
    const int64_t cols = source.cols();
    source.decode(first, count, out);
    for (int64_t r = 0; r < count; ++r) {
      float* weights = out + r * cols;
      if (!scaling.rows.empty())
        for (int64_t i = 0; i < cols; ++i) weights[i] *= scaling.rows[first + r];
      if (!scaling.cols.empty())
        for (int64_t i = 0; i < cols; ++i) weights[i] *= scaling.cols[i];
    }
    if (const int64_t bad = quant::find_not_finite({out, static_cast<size_t>(count * cols)}); bad >= 0)
      throw_error("tensor {}: row {}, column {} is {}: the weights are damaged", core::printable(source.name()),
                  first + bad / cols, bad % cols, out[bad]);
  }

  void check(int64_t first, const Rows& rows, const std::byte* packed) const {
    if (!check_range) return;
    try {
      quant::check_range(format.type, rows.weights, packed, rows.rows, rows.cols, first);
    } catch (const Error& error) {
      throw_error("tensor {}: {} (--tensor-type NAME=BF16)", core::printable(source.name()), error.what());
    }
  }

  // decoded: a row.
  quant::ErrorStats measure(const Rows& rows, const std::byte* packed, std::span<const float> factors,
                            float* decoded) const {
    quant::ErrorStats error;
    for (int64_t r = 0; r < rows.rows; ++r) {
      format.decode(packed + r * format.row_bytes(rows.cols), rows.cols, decoded);
      error.add_row(rows.weights + r * rows.cols, decoded, rows.cols, factors.empty() ? nullptr : factors.data());
    }
    return error;
  }
};

// Encoders of the CPU run in each thread's pieces, which stay in its cache.
bool runs_in_pieces(const EncodeRows& encode) {
  const auto* plain = encode.target<decltype(&encode_on_cpu)>();
  return plain && *plain == &encode_on_cpu;
}

} // namespace

StageSeconds& StageSeconds::operator+=(const StageSeconds& other) {
  reading += other.reading;
  encoding += other.encoding;
  measuring += other.measuring;
  writing += other.writing;
  return *this;
}

void encode_on_cpu(const Rows& rows, quant::Type type, std::span<const float> importance, std::byte* out) {
  quant::encode_rows_parallel(type, rows.weights, rows.rows, rows.cols, importance, out);
}

std::vector<std::vector<float>> importance_of(const gguf::Imatrix* imatrix, const WeightSource& source) {
  std::vector<std::vector<float>> importance(static_cast<size_t>(source.matrices()));
  if (!imatrix) return importance;
  if (const auto* entry = imatrix->find(source.name(), source.cols(), source.matrices()))
    for (int64_t m = 0; m < source.matrices(); ++m)
      importance[static_cast<size_t>(m)] = entry->mean_squares(m, source.matrices());
  return importance;
}

quant::ErrorStats encode_tensor(const WeightSource& source, quant::Type type,
                                const std::vector<std::vector<float>>& importance, const EncodeRows& encode,
                                const std::function<void(std::span<const std::byte>)>& sink, bool check_range,
                                const Scaling& scaling, StageSeconds* seconds, int64_t chunk_weights) {
  StageSeconds unwanted;
  double watch = core::seconds_now();
  StageSeconds& spent = seconds ? *seconds : unwanted;
  const int64_t cols = source.cols(), matrix_rows = source.rows() / source.matrices();
  const Way way{source, quant::format(type), scaling, check_range};
  const int64_t row_bytes = way.format.row_bytes(cols);
  const int64_t chunk_rows = std::min(std::max<int64_t>(1, chunk_weights / cols), matrix_rows);
  const int64_t piece_rows = std::min(std::max<int64_t>(1, kPieceWeights / cols), chunk_rows);
  const bool in_pieces = runs_in_pieces(encode);
  // Uninitialized: filling it is single-threaded.
  const auto floats = [cols](int64_t rows) {
    return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows * cols));
  };
  const auto original = floats(in_pieces ? 0 : chunk_rows);
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(chunk_rows * row_bytes));
  quant::ErrorStats total;
  for (int64_t m = 0; m < source.matrices(); ++m) {
    const std::vector<float>& factors = importance[static_cast<size_t>(m)];
    for (int64_t row = 0; row < matrix_rows; row += chunk_rows) {
      const int64_t first = m * matrix_rows + row, count = std::min(chunk_rows, matrix_rows - row);
      const int64_t pieces = (count + piece_rows - 1) / piece_rows;
      std::vector<quant::ErrorStats> errors(static_cast<size_t>(pieces));
      const auto each_piece = [&](const auto& run) {
        in_threads(pieces, [&](auto&& take) {
          std::unique_ptr<float[]> of_piece, decoded;
          take([&](int64_t piece) {
            if (!decoded) of_piece = floats(in_pieces ? piece_rows : 0), decoded = floats(1);
            const int64_t at = piece * piece_rows;
            const Rows rows{in_pieces ? of_piece.get() : original.get() + at * cols, std::min(piece_rows, count - at),
                            cols};
            run(piece, at, rows, packed.get() + at * row_bytes, decoded.get());
          });
        });
      };
      const auto read = [&](int64_t at, const Rows& rows) {
        way.read(first + at, rows.rows, const_cast<float*>(rows.weights));
      };
      if (in_pieces) {
        std::vector<StageSeconds> stages(static_cast<size_t>(pieces));
        each_piece([&](int64_t piece, int64_t at, const Rows& rows, std::byte* out, float* decoded) {
          double of_stage = core::seconds_now();
          StageSeconds& stage = stages[static_cast<size_t>(piece)];
          read(at, rows);
          stage.reading = lap(of_stage);
          quant::encode_rows(type, rows.weights, rows.rows, cols, factors, out);
          way.check(first + at, rows, out);
          stage.encoding = lap(of_stage);
          errors[static_cast<size_t>(piece)] = way.measure(rows, out, factors, decoded);
          stage.measuring = lap(of_stage);
        });
        StageSeconds all;
        for (const StageSeconds& stage : stages) all += stage;
        const double threads = (all.reading + all.encoding + all.measuring) / lap(watch);
        spent += {all.reading / threads, all.encoding / threads, all.measuring / threads};
      } else {
        each_piece([&](int64_t, int64_t at, const Rows& rows, std::byte*, float*) { read(at, rows); });
        Rows rows{original.get(), count, cols};
        if (!source.is_planar() && !source.is_changed() && scaling.rows.empty() && scaling.cols.empty()) {
          rows.packed_format = source.type().format();
          rows.packed = source.packed(first, count).data();
        }
        spent.reading += lap(watch);
        encode(rows, type, factors, packed.get());
        way.check(first, rows, packed.get());
        spent.encoding += lap(watch);
        each_piece([&](int64_t piece, int64_t, const Rows& some, const std::byte* out, float* decoded) {
          errors[static_cast<size_t>(piece)] = way.measure(some, out, factors, decoded);
        });
        spent.measuring += lap(watch);
      }
      for (const quant::ErrorStats& error : errors) total += error;
      sink(std::span(packed.get(), static_cast<size_t>(count * row_bytes)));
      spent.writing += lap(watch);
      source.release(first, count);
    }
  }
  return total;
}

std::vector<gguf::TensorInfo> Requantization::infos() const {
  std::vector<gguf::TensorInfo> infos;
  for (size_t i = 0; i < sources.size(); ++i)
    infos.push_back({std::string(sources[i].name()), types[i], sources[i].dims()});
  return infos;
}

bool Requantization::is_output(const WeightSource& source) const {
  constexpr std::string_view kOutput = "output.weight";
  if (source.name() == kOutput) return true;
  return source.name() == "token_embd.weight" &&
         std::ranges::find(sources, kOutput, &WeightSource::name) == sources.end();
}

void check_requantization(const Requantization& plan, bool allow_requantize) {
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const WeightSource& source = plan.sources[i];
    if (source.type() == plan.types[i] && !source.is_changed()) continue;
    const quant::FormatInfo* target = plan.types[i].format();
    if (!target || !quant::can_encode(target->type))
      throw_error("tensor {}: {} can be read but not written", core::printable(source.name()), plan.types[i].name());
    if (source.is_packed() && !source.is_planar() && !allow_requantize)
      throw_error("{}: tensor {} is already {}, and requantizing it to {} loses more than quantizing the original; use "
                  "the F32, F16 or BF16 file, or give --allow-requantize",
                  plan.file->path(), core::printable(source.name()), source.type().name(), target->name);
  }
}

uint32_t dominant_file_type(const Requantization& plan) {
  std::map<uint32_t, int64_t> weights;
  for (size_t i = 0; i < plan.sources.size(); ++i)
    if (plan.sources[i].has_weights()) weights[plan.types[i].id()] += plan.sources[i].weights();
  if (weights.empty()) return 0;
  const auto most = std::ranges::max_element(weights, {}, &std::pair<const uint32_t, int64_t>::second);
  const models::Recipe* plainest = nullptr;
  for (const models::Recipe& recipe : models::recipes())
    if (static_cast<uint32_t>(recipe.base) == most->first &&
        (!plainest || recipe.rules.size() < plainest->rules.size()))
      plainest = &recipe;
  return plainest ? plainest->file_type : 0;
}

Requantization plan_requantization(const gguf::File& file, const models::Recipe* recipe,
                                   const models::RecipeOptions& options, const gguf::Imatrix* imatrix) {
  Requantization plan{&file, recipe ? weight_sources(file) : stored_tensors(file), {}, gguf::Metadata::of(file)};
  std::vector<gguf::TensorInfo> infos;
  for (const WeightSource& source : plan.sources) infos.push_back(source.info());
  if (recipe) {
    plan.types = models::assign_types(*recipe, models::model_traits(file), infos, options);
    // Planar weights become ordinary tensors; their keys are obsolete.
    for (size_t i = 0; i < plan.sources.size(); ++i)
      if (plan.sources[i].is_planar() && plan.types[i] == plan.sources[i].type()) plan.types[i] = quant::Type::F16;
    for (const char* key : {"ridge.quant.scheme", "ridge.quant.group_size", "ridge.quant.source"})
      plan.metadata.erase(key);
    plan.metadata.set("general.file_type", recipe->file_type);
    plan.metadata.set("general.quantization_version", uint32_t{2});
  } else {
    for (const gguf::TensorInfo& info : infos) plan.types.push_back(info.type);
  }
  if (imatrix) {
    plan.metadata.set("quantize.imatrix.file", imatrix->path);
    if (!imatrix->datasets.empty()) plan.metadata.set("quantize.imatrix.dataset", imatrix->datasets.front());
    plan.metadata.set("quantize.imatrix.entries_count", static_cast<uint32_t>(imatrix->entries.size()));
    if (imatrix->chunks > 0) plan.metadata.set("quantize.imatrix.chunks_count", static_cast<uint32_t>(imatrix->chunks));
  }
  return plan;
}

std::vector<std::string> write(const Requantization& plan, const RequantizeOutput& output, const gguf::Imatrix* imatrix,
                               const EncodeRows& encode,
                               const std::function<const Prepared*(std::string_view)>& prepared,
                               const std::function<void(const TensorResult&)>& done,
                               const std::function<void(int64_t done, int64_t total)>& progress) {
  gguf::SplitWriter writer(output.path, plan.metadata, plan.infos(), output.max_file_bytes);
  const std::vector<gguf::TensorInfo> infos = plan.infos();
  int64_t bytes_done = 0, bytes_total = 0;
  for (const gguf::TensorInfo& info : infos) bytes_total += static_cast<int64_t>(info.bytes());
  const auto sink = [&](std::span<const std::byte> bytes) {
    writer.write(bytes);
    bytes_done += std::ssize(bytes);
    if (progress) progress(bytes_done, bytes_total);
  };
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const WeightSource& source = plan.sources[i];
    TensorResult result{source.name(),
                        source.type().name(),
                        plan.types[i].name(),
                        source.dims(),
                        source.weights(),
                        source.bytes(),
                        infos[i].bytes(),
                        true,
                        {},
                        {}};
    if (const Prepared* made = prepared ? prepared(source.name()) : nullptr) {
      sink(made->bytes);
      result.error = made->error;
      result.encoded = source.type() != plan.types[i];
    } else if (source.type() == plan.types[i] && !source.is_changed()) {
      result.encoded = false;
      const int64_t rows = source.rows();
      const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kCopyBytes) /
                                                    std::max<int64_t>(1, source.type().row_bytes(source.cols())));
      for (int64_t row = 0; row < rows; row += step) {
        const int64_t count = std::min(step, rows - row);
        sink(source.packed(row, count));
        source.release(row, count);
      }
    } else {
      result.error = encode_tensor(source, plan.types[i].format()->type, importance_of(imatrix, source), encode, sink,
                                   true, {}, &result.seconds);
    }
    plan.file->check();
    if (done) done(result);
  }
  writer.finish();
  return writer.paths();
}

WeightSource::WeightSource(const gguf::File& file, const gguf::Tensor& tensor)
    : file_(&file), tensor_(&tensor), name_(tensor.name), type_(tensor.type),
      dims_(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims) {}

WeightSource::WeightSource(const gguf::File& file, models::PlanarWeight weight)
    : file_(&file), planar_(std::make_shared<const models::PlanarWeight>(std::move(weight))), name_(planar_->name()),
      type_(planar_->type()), dims_({planar_->cols(), planar_->rows()}) {
  if (planar_->count() > 1) dims_.push_back(planar_->count());
}

int64_t WeightSource::rows() const {
  int64_t rows = 1;
  for (size_t i = 1; i < dims_.size(); ++i) rows *= dims_[i];
  return rows;
}

std::span<const std::byte> WeightSource::packed(int64_t first, int64_t count) const {
  const int64_t row_bytes = type_.row_bytes(cols());
  return tensor_->data.subspan(static_cast<size_t>(first * row_bytes), static_cast<size_t>(count * row_bytes));
}

void WeightSource::decode(int64_t first, int64_t count, float* out) const {
  if (planar_)
    planar_->decode(first, count, out);
  else
    type_.format()->decode(packed(first, count).data(), count * cols(), out);
  if (change_) change_->add_to(first, count, out);
}

void WeightSource::merge(std::span<const models::ScaledAdapter> adapters) {
  auto change = std::make_shared<const models::WeightChange>(adapters, *file_, std::string(name_), cols(),
                                                             rows() / matrices(), matrices());
  if (!change->empty()) change_ = std::move(change);
}

void WeightSource::release(int64_t first, int64_t count) const {
  if (!planar_) return file_->release(*tensor_, packed(first, count));
  if (first + count < rows()) return; // planar parts are released together
  for (const gguf::Tensor* part : planar_->tensors()) file_->release(*part, part->data);
}

std::vector<WeightSource> stored_tensors(const gguf::File& file) {
  std::vector<WeightSource> sources;
  for (const gguf::Tensor& tensor : file.tensors()) sources.emplace_back(file, tensor);
  return sources;
}

std::vector<WeightSource> weight_sources(const gguf::File& file) {
  std::map<const gguf::Tensor*, models::PlanarWeight>
      planar_by_first_tensor; // a planar weight takes the place of its first tensor
  std::set<const gguf::Tensor*> parts;
  const auto add = [&](const std::string& name) {
    auto weight = models::PlanarWeight::find(file, name);
    if (!weight) return;
    const std::vector<const gguf::Tensor*> tensors = weight->tensors();
    parts.insert(tensors.begin(), tensors.end());
    planar_by_first_tensor.emplace(*std::ranges::min_element(tensors), std::move(*weight));
  };
  for (const std::string& name : models::PlanarWeight::names(file)) add(name);
  for (const gguf::Tensor& tensor : file.tensors())
    if (tensor.type == quant::Type::NVFP4) add(std::string(tensor.name));
  std::vector<WeightSource> sources;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (const auto begun = planar_by_first_tensor.find(&tensor); begun != planar_by_first_tensor.end())
      sources.emplace_back(file, std::move(begun->second));
    else if (!parts.contains(&tensor))
      sources.emplace_back(file, tensor);
  }
  return sources;
}

} // namespace ridge::convert
