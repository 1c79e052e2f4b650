#include "kernels/cuda/executor/device_weights.h"

#include "kernels/cuda/experts/weight_rows.h"
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace ridge::kernels::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int64_t kPieceBytes = 16 << 20;
constexpr int kPieces = 4;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

enum class Use : uint8_t { none, vector, matrix };

std::vector<Use> uses_of(const core::Program& program) {
  std::vector<Use> uses(program.weights.size(), Use::none);
  for (const core::Op& op : program.ops)
    for (size_t i = 0; i < op.weights.size(); ++i) {
      const bool vector = keeps_layout(core::info_of(op.kind).weights.roles[i]);
      uses[op.weights[i]] = vector ? Use::vector : Use::matrix;
    }
  return uses;
}

struct Piece {
  PinnedMemory host;
  DeviceMemory device, repacked;
  Event done;

  Piece(size_t bytes, size_t repacked_bytes)
      : host(bytes), device(bytes, "the upload buffer"), repacked(repacked_bytes, "the upload buffer") {}
};

// Sends rows [first, first + count) from the piece's host memory.
void send(const Piece& piece, const core::Weight& w, const DeviceWeight& weight, bool on_host, int64_t first,
          int64_t count, const Launch& launch) {
  const int64_t bytes = count * w.row_bytes;
  auto* to = const_cast<uint8_t*>(weight.data);
  if (weight.row_bytes == 0) {
    to += first * w.row_bytes;
    RIDGE_CUDA(cudaMemcpyAsync(to, piece.host.as(), bytes, cudaMemcpyHostToDevice, launch.stream));
    return;
  }
  RIDGE_CUDA(cudaMemcpyAsync(piece.device.as(), piece.host.as(), bytes, cudaMemcpyHostToDevice, launch.stream));
  const auto repack = format_kernels(w.type).repack;
  if (!on_host) return repack(launch, piece.device.as(), w.row_bytes, to, w.cols, first, count, w.rows);
  const int64_t matrices = count / w.rows;
  uint8_t* repacked = piece.repacked.as();
  RIDGE_CUDA(cudaMemsetAsync(repacked, 0, matrices * weight.matrix_bytes, launch.stream));
  repack(launch, piece.device.as(), w.row_bytes, repacked, w.cols, 0, count, w.rows);
  RIDGE_CUDA(cudaMemcpy2DAsync(to + first / w.rows * weight.expert_stride, weight.expert_stride, repacked,
                               weight.matrix_bytes, weight.matrix_bytes, matrices, cudaMemcpyDeviceToHost,
                               launch.stream));
}

} // namespace

DeviceWeights::DeviceWeights(const core::Program& program, const ExpertStore& experts, const DeviceWeights* others,
                             const core::Program* other_program)
    : shared_(program.weights.size()), weights_(program.weights.size()), experts_filed_(experts.filed()) {
  if (others) share(program, *others, *other_program);
  const std::vector<Use> uses = uses_of(program);
  std::vector<size_t> offsets(program.weights.size());
  size_t total = 0;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (uses[i] == Use::none || shared_[i]) continue;
    const core::Weight& w = program.weights[i];
    DeviceWeight& to = weights_[i];
    offsets[i] = total;
    if (uses[i] == Use::matrix) {
      to.row_bytes = format_kernels(w.type).numbers.row_bytes(w.cols);
      to.matrix_bytes = packed_bytes(w);
    }
    const ExpertStore::Place place = experts.place(static_cast<core::WeightId>(i));
    to.data = place.data;
    to.expert_stride = place.stride;
    if (!on_host(i)) total += aligned(uses[i] == Use::matrix ? to.matrix_bytes * w.count : w.total_bytes());
  }
  memory_ = std::make_shared<DeviceMemory>(total, "the weights");
  for (size_t i = 0; i < program.weights.size(); ++i)
    if (uses[i] != Use::none && !shared_[i] && !on_host(i)) weights_[i].data = memory_->as() + offsets[i];
}

// Shares weights with the same data and layout on the GPU.
void DeviceWeights::share(const core::Program& program, const DeviceWeights& others,
                          const core::Program& other_program) {
  const std::vector<Use> uses = uses_of(program), other_uses = uses_of(other_program);
  std::map<const std::byte*, size_t> known;
  for (size_t i = 0; i < other_program.weights.size(); ++i)
    if (others.weights_[i].data && !others.on_host(i)) known.emplace(other_program.weights[i].data, i);
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const auto found = known.find(program.weights[i].data);
    if (uses[i] == Use::none || found == known.end() || other_uses[found->second] != uses[i]) continue;
    const core::Weight &w = program.weights[i], &other = other_program.weights[found->second];
    const auto shape = [](const core::Weight& of) {
      return std::tuple(of.type, of.cols, of.rows, of.count, of.row_bytes, of.run_rows, of.run_stride);
    };
    if (shape(w) != shape(other)) continue;
    weights_[i] = others.weights_[found->second];
    shared_[i] = true;
  }
  others_memory_ = others.others_memory_;
  others_memory_.push_back(others.memory_);
}

// Some rows or, for experts in host memory, some matrices.
struct DeviceWeights::Pieces {
  int64_t bytes = kPieceBytes, repacked_bytes = 0;
  double file_bytes = 0;
};

DeviceWeights::Pieces DeviceWeights::find_pieces(const core::Program& program) const {
  Pieces pieces;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (!is_uploaded(i)) continue;
    const core::Weight& w = program.weights[i];
    pieces.file_bytes += static_cast<double>(w.total_bytes());
    pieces.bytes = std::max(pieces.bytes, w.row_bytes * (on_host(i) ? w.rows : 1));
  }
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (!is_uploaded(i) || !on_host(i)) continue;
    const core::Weight& w = program.weights[i];
    pieces.repacked_bytes =
        std::max(pieces.repacked_bytes, pieces.bytes / (w.row_bytes * w.rows) * weights_[i].matrix_bytes);
  }
  return pieces;
}

void DeviceWeights::upload(const core::Program& program, const Launch& launch,
                           const std::function<void(double, double)>& progress) const {
  if (memory_->bytes() > 0)
    RIDGE_CUDA(cudaMemsetAsync(memory_->as(), 0, memory_->bytes(), launch.stream)); // padding is read
  const Pieces sizes = find_pieces(program);
  const auto make_piece = [&] { return Piece(sizes.bytes, sizes.repacked_bytes); };
  std::array<Piece, kPieces> pieces = {make_piece(), make_piece(), make_piece(), make_piece()};
  size_t next = 0;
  double done_bytes = 0;
  for (size_t i = 0; i < program.weights.size(); ++i) {
    if (!is_uploaded(i)) continue;
    const DeviceWeight& to = weights_[i];
    const core::Weight& w = program.weights[i];
    const int64_t rows = w.rows * w.count, at_once = on_host(i) ? w.rows : 1,
                  rows_per_piece = sizes.bytes / (w.row_bytes * at_once) * at_once;
    for (int64_t row = 0; row < rows; row += rows_per_piece) {
      const int64_t count = std::min(rows_per_piece, rows - row);
      Piece& piece = pieces[next++ % kPieces];
      RIDGE_CUDA(cudaEventSynchronize(piece.done.handle));
      const RowCopy copy{&w, row, count, piece.host.as()};
      copy_rows({&copy, 1});
      send(piece, w, to, on_host(i), row, count, launch);
      RIDGE_CUDA(cudaEventRecord(piece.done.handle, launch.stream));
      done_bytes += static_cast<double>(count * w.row_bytes);
      if (progress) progress(done_bytes, sizes.file_bytes);
    }
  }
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
}

} // namespace ridge::kernels::cuda
