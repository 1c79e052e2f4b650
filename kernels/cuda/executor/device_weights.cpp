#include "kernels/cuda/executor/device_weights.h"

#include "kernels/cuda/executor/format_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int64_t kPieceBytes = 16 << 20;
constexpr int kPieces = 4; // in flight

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

enum class Use : uint8_t { none, vector, matrix };

// Norm weights, biases and orders are read as vectors, as they are in the file, everything else as matrices.
std::vector<Use> uses_of(const core::Program& program) {
  std::vector<Use> uses(program.weights.size(), Use::none);
  for (const core::Op& op : program.ops)
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const core::WeightRole role = core::info_of(op.kind).weights.roles[i];
      const bool vector =
          role == core::WeightRole::vector || role == core::WeightRole::taps || role == core::WeightRole::order;
      uses[op.weights[i]] = vector ? Use::vector : Use::matrix;
    }
  return uses;
}

struct Piece {
  PinnedMemory host;
  DeviceMemory device;
  Event done; // copied and repacked

  explicit Piece(size_t bytes) : host(bytes), device(bytes, "the upload buffer") {}
};

void copy_with_all_threads(uint8_t* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kShare = 1 << 20; // a few hundred microseconds of page faults and copying
#pragma omp parallel for schedule(dynamic)
  for (int64_t at = 0; at < bytes; at += kShare) std::memcpy(to + at, from + at, std::min(kShare, bytes - at));
}

// Rows [first, first + count) of a weight, whose rows may come in runs.
void copy_rows(uint8_t* to, const core::Weight& w, int64_t first, int64_t count) {
  const int64_t run = w.rows_per_run(), end = first + count;
  for (int64_t next; first < end; first = next) {
    next = std::min(end, (first / run + 1) * run);
    copy_with_all_threads(to, w.row(first), (next - first) * w.row_bytes);
    to += (next - first) * w.row_bytes;
  }
}

} // namespace

DeviceWeights::DeviceWeights(const core::Program& program) : weights_(program.weights.size()) {
  const std::vector<Use> uses = uses_of(program);
  std::vector<size_t> offsets(program.weights.size());
  size_t total = 0;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (uses[i] == Use::none) continue;
    const core::Weight& w = program.weights[i];
    DeviceWeight& to = weights_[i];
    offsets[i] = total;
    if (uses[i] == Use::matrix) {
      const FormatKernels& format = format_kernels(w.type);
      to.row_bytes = format.row_bytes(w.cols);
      to.matrix_bytes = format.matrix_bytes(w.rows, to.row_bytes);
    }
    total += aligned(uses[i] == Use::matrix ? to.matrix_bytes * w.count : w.total_bytes());
  }
  memory_ = DeviceMemory(total, "the weights");
  for (size_t i = 0; i < program.weights.size(); ++i)
    if (uses[i] != Use::none) weights_[i].data = memory_.as() + offsets[i];
}

void DeviceWeights::upload(const core::Program& program, const Launch& launch,
                           const std::function<void(double, double)>& progress) const {
  double total_file_bytes = 0;
  int64_t longest_row = 0;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (!weights_[i].data) continue;
    total_file_bytes += static_cast<double>(program.weights[i].total_bytes());
    longest_row = std::max(longest_row, program.weights[i].row_bytes);
  }

  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), launch.stream)); // padding is fetched, too
  const int64_t piece_bytes = std::max(kPieceBytes, longest_row);
  std::array<Piece, kPieces> pieces = {Piece(piece_bytes), Piece(piece_bytes), Piece(piece_bytes), Piece(piece_bytes)};
  size_t next = 0;
  double done_bytes = 0;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const DeviceWeight& to = weights_[i];
    if (!to.data) continue;
    const core::Weight& w = program.weights[i];
    auto* data = const_cast<uint8_t*>(to.data);
    const int64_t rows = w.rows * w.count, rows_per_piece = piece_bytes / w.row_bytes;
    for (int64_t row = 0; row < rows; row += rows_per_piece) {
      const int64_t count = std::min(rows_per_piece, rows - row), bytes = count * w.row_bytes;
      Piece& piece = pieces[next++ % kPieces];
      RIDGE_CUDA(cudaEventSynchronize(piece.done.handle));
      copy_rows(piece.host.as(), w, row, count);
      if (to.row_bytes == 0) { // a vector
        RIDGE_CUDA(
            cudaMemcpyAsync(data + row * w.row_bytes, piece.host.as(), bytes, cudaMemcpyHostToDevice, launch.stream));
      } else {
        RIDGE_CUDA(cudaMemcpyAsync(piece.device.as(), piece.host.as(), bytes, cudaMemcpyHostToDevice, launch.stream));
        format_kernels(w.type).repack(launch, piece.device.as(), w.row_bytes, data, w.cols, row, count, w.rows);
      }
      RIDGE_CUDA(cudaEventRecord(piece.done.handle, launch.stream));
      done_bytes += static_cast<double>(bytes);
      if (progress) progress(done_bytes, total_file_bytes);
    }
  }
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

} // namespace ridge::kernels::cuda
