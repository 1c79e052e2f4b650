#include "kernels/cuda/encode/hessian.h"

#include "core/error.h"
#include "kernels/cuda/encode/encode_kernels.h"
#include "kernels/cuda/encode/hessian_kernels.h"
#include "kernels/cuda/runtime/cublas.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_info.h"
#include "quant/code_map.h"
#include "quant/encode/encode.h"
#include "quant/feedback/gptq.h"
#include "quant/feedback/rounding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace ridge::kernels::cuda {
namespace {

template <typename T>
DeviceMemory upload(std::span<const T> values, const char* what) {
  DeviceMemory memory(values.size_bytes(), what);
  RIDGE_CUDA(cudaMemcpy(memory.as(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
  return memory;
}

class DeviceCodeMap {
 public:
  explicit DeviceCodeMap(quant::Type type) {
    const quant::CodeMap& map = *quant::CodeMap::of(type);
    std::vector<float> levels;
    std::vector<uint8_t> patterns;
    for (const int pattern : map.sorted()) {
      levels.push_back(map.level(pattern));
      patterns.push_back(static_cast<uint8_t>(pattern));
    }
    std::vector<int16_t> owner(static_cast<size_t>(8 * quant::format(type).block_bytes), int16_t{-1});
    for (size_t i = 0; i < map.places().size(); ++i) {
      const quant::CodeMap::Bit place = map.places()[i];
      const size_t weight = i / static_cast<size_t>(map.bits()), bit = i % static_cast<size_t>(map.bits());
      owner[8 * place.byte + static_cast<size_t>(std::countr_zero(place.mask))] =
          static_cast<int16_t>(8 * weight + bit);
    }
    midpoints_ = upload(map.midpoints(), "code tables");
    levels_ = upload(std::span<const float>(levels), "code tables");
    patterns_ = upload(std::span<const uint8_t>(patterns), "code tables");
    owner_ = upload(std::span<const int16_t>(owner), "code tables");
    ranks_ = static_cast<int>(levels.size());
  }
  CodeTables tables() const {
    return {midpoints_.as<float>(), levels_.as<float>(), patterns_.as<uint8_t>(), owner_.as<int16_t>(), ranks_};
  }

 private:
  DeviceMemory midpoints_, levels_, patterns_, owner_;
  int ranks_;
};

struct Shared {
  Stream stream;
  Cublas cublas;
  std::map<quant::Type, DeviceCodeMap> codes;
};

// h: symmetric, with the damping.
class DeviceGradient final : public quant::Gradient {
 public:
  DeviceGradient(std::shared_ptr<Shared> shared, const float* h, int64_t cols, int64_t lanes)
      : shared_(std::move(shared)), stream_(shared_->stream.handle), h_(h), cols_(cols), lanes_(lanes),
        gradient_(4 * cols * lanes, "errors"), first_(gradient_.bytes(), "errors"),
        change_(gradient_.bytes(), "errors") {}

  std::vector<double> start(std::span<const float> error) override {
    std::swap(gradient_, first_);
    subtract_product(0, error, 0);
    std::vector<double> sums(static_cast<size_t>(lanes_));
    const DeviceMemory of_lanes(8 * lanes_, "errors");
    launch_lane_errors(change_.as<float>(), at(0), cols_, lanes_, of_lanes.as<double>(), stream_);
    RIDGE_CUDA(cudaGetLastError());
    RIDGE_CUDA(cudaMemcpyAsync(sums.data(), of_lanes.as(), of_lanes.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
    return sums;
  }
  void keep_second(std::span<const uint8_t> marked) override {
    const DeviceMemory marks = upload(marked, "errors");
    launch_keep_lanes(marks.as<uint8_t>(), first_.as<float>(), cols_, lanes_, at(0), stream_);
    RIDGE_CUDA(cudaGetLastError());
    RIDGE_CUDA(cudaStreamSynchronize(stream_)); // `marks` ends here
  }
  void read(int64_t first, std::span<float> gradient) override {
    RIDGE_CUDA(cudaMemcpyAsync(gradient.data(), at(first), gradient.size_bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
  }
  void move(int64_t first, std::span<const float> moved, std::span<const float> gradient) override {
    subtract_product(first, moved, 1);
    RIDGE_CUDA(cudaMemcpyAsync(at(first), gradient.data(), gradient.size_bytes(), cudaMemcpyHostToDevice, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_)); // the caller's arrays change
  }

 private:
  float* at(int64_t column) { return gradient_.as<float>() + column * lanes_; }
  // gradient = beta gradient - H change
  void subtract_product(int64_t first, std::span<const float> change, float beta) {
    RIDGE_CUDA(cudaMemcpyAsync(change_.as(), change.data(), change.size_bytes(), cudaMemcpyHostToDevice, stream_));
    shared_->cublas.multiply(stream_, cols_, lanes_, std::ssize(change) / lanes_, h_ + first, cols_,
                             change_.as<float>(), lanes_, beta, at(0), lanes_, -1);
  }

  std::shared_ptr<Shared> shared_;
  cudaStream_t stream_;
  const float* h_;
  int64_t cols_, lanes_;
  DeviceMemory gradient_, first_, change_;
};

class CudaHessian final : public quant::Hessian {
 public:
  CudaHessian(std::shared_ptr<Shared> shared, int64_t cols)
      : shared_(std::move(shared)), stream_(shared_->stream.handle), cols_(cols), upper_(4 * cols * cols, "a Hessian") {
    RIDGE_CUDA(cudaMemsetAsync(upper_.as(), 0, upper_.bytes(), stream_));
  }
  ~CudaHessian() override { cudaStreamSynchronize(stream_); }

  int64_t cols() const override { return cols_; }

  void add(std::span<const float> inputs) override {
    constexpr int64_t kInputs = 4096; // at most 235 MB
    for (; !inputs.empty();) {
      const auto part = inputs.first(std::min<size_t>(inputs.size(), kInputs * cols_));
      const int64_t count = std::ssize(part) / cols_;
      const float* x = upload_to(inputs_memory_, part);
      shared_->cublas.add_square(stream_, cols_, count, 1, x, cols_, true, upper_.as<float>(), cols_);
      inputs_ += static_cast<double>(count);
      inputs = inputs.subspan(part.size());
    }
  }

  void add_originals(std::span<const float> inputs, std::span<const float> originals,
                     std::span<const float> ahead) override {
    std::vector<float> change(originals.begin(), originals.end());
    for (size_t i = 0; i < change.size(); ++i) change[i] -= inputs[i];
    const float* x = upload_to(inputs_memory_, inputs);
    const int64_t count = std::ssize(inputs) / cols_;
    const auto add_moment = [&](std::span<const float> vectors, DeviceMemory& moment) {
      const int64_t width = std::ssize(vectors) / count;
      if (moment.bytes() == 0) {
        moment = DeviceMemory(4 * width * cols_, "moments of inputs");
        RIDGE_CUDA(cudaMemsetAsync(moment.as(), 0, moment.bytes(), stream_));
      }
      const float* v = upload_to(vectors_memory_, vectors);
      shared_->cublas.add_product(stream_, width, cols_, count, v, x, moment.as<float>());
    };
    add_moment(change, shift_);
    if (!ahead.empty()) add_moment(ahead, ahead_);
    RIDGE_CUDA(cudaStreamSynchronize(stream_)); // `change` ends here
  }

  std::vector<float> targets(const float* weights, int64_t rows) override {
    if (m_.bytes() == 0) factorize();
    const auto count = static_cast<size_t>(rows * cols_);
    std::vector<float> inverse(host_factor().d);
    for (float& d : inverse) d = 1 / d;
    const DeviceMemory of_d = upload(std::span<const float>(inverse), "a Hessian's factor");
    const DeviceMemory w = upload(std::span(weights, count), "a matrix");
    DeviceMemory change(4 * count, "a matrix");
    if (ahead_.bytes() > 0)
      RIDGE_CUDA(cudaMemcpyAsync(change.as(), ahead_.as(), change.bytes(), cudaMemcpyDeviceToDevice, stream_));
    else
      RIDGE_CUDA(cudaMemsetAsync(change.as(), 0, change.bytes(), stream_));
    if (shift_.bytes() > 0)
      shared_->cublas.multiply(stream_, rows, cols_, cols_, w.as<float>(), cols_, shift_.as<float>(), cols_, 1,
                               change.as<float>(), cols_);
    shared_->cublas.divide(stream_, rows, cols_, m_.as<float>(), of_d.as<float>(), change.as<float>());
    std::vector<float> result(count);
    RIDGE_CUDA(cudaMemcpyAsync(result.data(), change.as(), change.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
    for (size_t i = 0; i < count; ++i) result[i] += weights[i];
    return result;
  }

  std::vector<float> mean_squares() const override {
    std::vector<float> mean(static_cast<size_t>(cols_));
    RIDGE_CUDA(
        cudaMemcpy2DAsync(mean.data(), 4, upper_.as(), 4 * (cols_ + 1), 4, cols_, cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
    for (float& m : mean) m = inputs_ > 0 ? static_cast<float>(m / inputs_) : 0.0f;
    return mean;
  }

  double output_error(std::span<const float> errors) const override {
    const int64_t rows = std::ssize(errors) / cols_;
    DeviceMemory memory, product(errors.size_bytes(), "errors"), partial(8 * kErrorBlocks, "errors");
    const float* e = upload_to(memory, errors);
    shared_->cublas.multiply(stream_, rows, cols_, cols_, e, cols_, upper_.as<float>(), cols_, 0, product.as<float>(),
                             cols_);
    launch_output_error(e, product.as<float>(), upper_.as<float>(), rows, cols_, partial.as<double>(), stream_);
    RIDGE_CUDA(cudaGetLastError());
    std::vector<double> sums(kErrorBlocks);
    RIDGE_CUDA(cudaMemcpyAsync(sums.data(), partial.as(), partial.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  void encode(quant::Type type, const float* weights, int64_t rows, std::byte* out) override {
    const quant::FormatInfo& info = quant::format(type);
    if (m_.bytes() == 0) factorize();
    if (!quant::CodeMap::of(type)) { // codebooks: on the CPU
      quant::encode_with_feedback(type, weights, rows, cols_, host_factor(), out);
      return;
    }
    const CodeTables codes = shared_->codes.try_emplace(type, type).first->second.tables();
    const auto count = static_cast<size_t>(rows * cols_);
    const int64_t block = info.block_weights, row_bytes = info.row_bytes(cols_);
    DeviceMemory original, target(4 * count, "a matrix"), part(4 * rows * block, "a matrix"),
        errors(4 * rows * block, "a matrix"), packed(rows * info.block_bytes, "a matrix"),
        result(rows * row_bytes, "a matrix");
    const float* w = upload_to(original, std::span(weights, count));
    auto* t = target.as<float>();
    RIDGE_CUDA(cudaMemcpyAsync(t, w, 4 * count, cudaMemcpyDeviceToDevice, stream_));
    for (int64_t first = 0; first < cols_; first += block) {
      RIDGE_CUDA(cudaMemcpy2DAsync(part.as(), 4 * block, t + first, 4 * cols_, 4 * block, rows,
                                   cudaMemcpyDeviceToDevice, stream_));
      encode_weights(type, part.as<float>(), d_.as<float>() + first, 0, 1, rows, packed.as(), stream_);
      const float* m = m_.as<float>() + first * (cols_ + 1);
      launch_feedback(type, codes, t + first, w + first, m, cols_, rows, packed.as(), errors.as<float>(), stream_);
      RIDGE_CUDA(cudaMemcpy2DAsync(result.as() + first / block * info.block_bytes, row_bytes, packed.as(),
                                   info.block_bytes, info.block_bytes, rows, cudaMemcpyDeviceToDevice, stream_));
      if (const int64_t left = cols_ - first - block; left > 0)
        shared_->cublas.multiply(stream_, rows, left, block, errors.as<float>(), block, m + block, cols_, 1,
                                 t + first + block, cols_);
      RIDGE_CUDA(cudaGetLastError());
    }
    RIDGE_CUDA(cudaMemcpyAsync(out, result.as(), result.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
  }

  // Codes on the CPU, products on the GPU.
  void round(quant::Type type, const float* weights, int64_t rows, std::byte* out) override {
    if (m_.bytes() == 0) factorize();
    const int64_t n = cols_;
    if (host_h_.empty()) {
      host_h_.resize(static_cast<size_t>(n * n));
      RIDGE_CUDA(cudaMemcpyAsync(host_h_.data(), upper_.as(), upper_.bytes(), cudaMemcpyDeviceToHost, stream_));
      RIDGE_CUDA(cudaStreamSynchronize(stream_));
#pragma omp parallel for schedule(dynamic, 16)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j) host_h_[i * n + j] = host_h_[j * n + i];
    }
    if (damped_.bytes() == 0) {
      damped_ = upload(std::span<const float>(host_h_), "a Hessian");
      std::vector<float> diagonal(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) diagonal[i] = host_h_[i * (n + 1)] + damping_;
      RIDGE_CUDA(cudaMemcpy2D(damped_.as(), 4 * (n + 1), diagonal.data(), 4, 4, n, cudaMemcpyHostToDevice));
    }
    quant::encode_rounded(
        type, weights, rows, {n, host_h_.data(), damping_}, host_factor(), mean_squares(), out,
        [&](int64_t lanes) { return std::make_unique<DeviceGradient>(shared_, damped_.as<float>(), n, lanes); });
  }

 private:
  const float* upload_to(DeviceMemory& memory, std::span<const float> values) const {
    if (memory.bytes() < values.size_bytes()) {
      RIDGE_CUDA(cudaStreamSynchronize(stream_)); // the old memory may be in use
      memory = DeviceMemory(values.size_bytes(), "calibration inputs");
    }
    RIDGE_CUDA(cudaMemcpyAsync(memory.as(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream_));
    return memory.as<float>();
  }

  const quant::CpuHessian::Factor& host_factor() {
    if (host_factor_) return *host_factor_;
    quant::CpuHessian::Factor factor{cols_, std::vector<float>(static_cast<size_t>(cols_ * cols_)),
                                     std::vector<float>(static_cast<size_t>(cols_)), damping_};
    RIDGE_CUDA(cudaMemcpyAsync(factor.m.data(), m_.as(), m_.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaMemcpyAsync(factor.d.data(), d_.as(), d_.bytes(), cudaMemcpyDeviceToHost, stream_));
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
    return host_factor_.emplace(std::move(factor));
  }

  void factorize() {
    const int64_t n = cols_;
    double mean = 0;
    for (const float square : mean_squares()) mean += square * inputs_ / static_cast<double>(n);
    if (!(mean > 0) || !std::isfinite(mean)) mean = 1; // no inputs: no feedback
    DeviceMemory triangle(4 * n * n, "a Hessian's factor"), failed(4, "a Hessian's factor");
    auto* u = triangle.as<float>();
    double used = 0;
    for (double damping = kDamping;; damping *= 10) {
      used = damping;
      RIDGE_CUDA(cudaMemsetAsync(failed.as(), 0, 4, stream_));
      launch_reverse(upper_.as<float>(), n, static_cast<float>(damping * mean), u, stream_);
      for (int64_t at = 0; at < n; at += kCholeskyBlock) {
        const int64_t k = std::min<int64_t>(kCholeskyBlock, n - at), left = n - at - k;
        float* diagonal = u + at * (n + 1);
        launch_small_cholesky(diagonal, n, static_cast<int>(k), failed.as<int>(), stream_);
        if (left == 0) break;
        shared_->cublas.solve(stream_, k, left, diagonal, n, diagonal + k, n);
        shared_->cublas.add_square(stream_, left, k, -1, diagonal + k, n, true, diagonal + k * (n + 1), n);
      }
      RIDGE_CUDA(cudaGetLastError());
      int not_positive = 0;
      RIDGE_CUDA(cudaMemcpyAsync(&not_positive, failed.as(), 4, cudaMemcpyDeviceToHost, stream_));
      RIDGE_CUDA(cudaStreamSynchronize(stream_));
      if (!not_positive) break;
      if (damping > 1e3) throw_error("the calibration inputs are not finite: the model or its weights are damaged");
    }
    m_ = DeviceMemory(4 * n * n, "a Hessian's factor");
    damping_ = static_cast<float>(used * mean);
    d_ = DeviceMemory(4 * n, "a Hessian's factor");
    launch_factor(u, n, m_.as<float>(), d_.as<float>(), stream_);
    RIDGE_CUDA(cudaStreamSynchronize(stream_));
  }

  std::shared_ptr<Shared> shared_;
  cudaStream_t stream_;
  int64_t cols_;
  double inputs_ = 0;
  float damping_ = 0;          // of m_ and d_
  std::vector<float> host_h_;  // symmetric
  DeviceMemory damped_;        // likewise, with damping_
  DeviceMemory upper_;         // zeros below the diagonal
  DeviceMemory shift_, ahead_; // as in quant::CpuHessian
  DeviceMemory inputs_memory_, vectors_memory_;
  DeviceMemory m_, d_; // as in quant::CpuHessian::Factor
  std::optional<quant::CpuHessian::Factor> host_factor_;
};

} // namespace

quant::MakeHessian hessian_maker(std::string& problem) {
  if (const DeviceInfo info = device_info(); !info.usable) {
    problem = info.problem;
    return nullptr;
  }
  auto shared = std::make_shared<Shared>();
  problem = shared->cublas.problem();
  if (!problem.empty()) return nullptr;
  return
      [shared](int64_t cols) -> std::unique_ptr<quant::Hessian> { return std::make_unique<CudaHessian>(shared, cols); };
}

} // namespace ridge::kernels::cuda
