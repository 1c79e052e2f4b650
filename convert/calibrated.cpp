#include "convert/calibrated.h"

#include "convert/calibrated_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ridge::convert {

using core::WeightId;

std::unique_ptr<quant::Hessian> make_cpu_hessian(int64_t cols) { return std::make_unique<quant::CpuHessian>(cols); }

CalibratedQuantizer::CalibratedQuantizer(const Requantization& plan, const core::Program& program,
                                         CalibrationMethod method, const std::vector<std::vector<int32_t>>& chunks,
                                         core::MakeExecutor make_executor, int threads, quant::MakeHessian make_hessian,
                                         EncodeRows encode)
    : plan_(plan), program_(program), method_(method), make_executor_(std::move(make_executor)),
      make_hessian_(std::move(make_hessian)), encode_(std::move(encode)), threads_(threads), text_{chunks, {}} {
  for (const core::Op& op : program.ops) layers_ = std::max(layers_, op.layer + 1);
  // The quantized embeddings.
  const core::Weight& table = program.weights[program.ops.at(0).weights[0]];
  const auto source = std::ranges::find(plan.sources, table.name, &WeightSource::name);
  const quant::FormatInfo& target = *plan.types[static_cast<size_t>(source - plan.sources.begin())].format();
  const int64_t width = table.cols;
  hidden_.resize(static_cast<size_t>(text_.tokens() * width));
  std::vector<std::byte> packed(static_cast<size_t>(target.row_bytes(width)));
  float* row = hidden_.data();
  for (const auto& chunk : chunks)
    for (const int32_t token : chunk) {
      source->decode(token, 1, row);
      if (target.packed && source->type() != target.type) {
        quant::encode_rows(target.type, row, 1, width, {}, packed.data());
        target.decode(packed.data(), width, row);
      }
      row += width;
    }
}

CalibratedQuantizer::~CalibratedQuantizer() = default;

void CalibratedQuantizer::use_journal(LayerJournal& journal, std::function<void(const std::string& line)> note) {
  journal_ = &journal;
  note_ = std::move(note);
}

void CalibratedQuantizer::quantize_layer(int32_t index) {
  Layer layer(*this, index);
  PreparedTensors before = std::exchange(ready_, {});
  make_tensors(layer, index);
  ready_.merge(before);
  if (index + 1 < layers_) {
    layer.run_to(layer.program.ops.size(), layer.output)(hidden_, [this](int64_t first, std::span<const float> rows) {
      const int64_t width = std::ssize(rows) / text_.chunk_tokens();
      std::ranges::copy(rows, hidden_.begin() + first * width);
    });
  }
}

void CalibratedQuantizer::make_tensors(Layer& layer, int32_t index) {
  if (journal_ && index < journal_->layers()) return layer.take(journal_->read(index));
  if (method_.scales) layer.find_scales();
  layer.quantize();
  if (journal_ && !journal_->append(ready_)) {
    note_(fmt::format("{}: cannot be written; if the process is killed, it restarts at layer {}", journal_->path(),
                      journal_->layers()));
    journal_ = nullptr;
  }
}

const Prepared* CalibratedQuantizer::tensor(std::string_view name) {
  ready_.erase(given_);
  given_ = name;
  int32_t layer = -1;
  for (const core::Op& op : program_.ops)
    for (const WeightId id : op.weights)
      if (program_.weights[id].name == name && op.layer >= 0) layer = op.layer;
  while (next_layer_ <= layer) quantize_layer(next_layer_++);
  const auto found = ready_.find(name);
  return found == ready_.end() ? nullptr : &found->second;
}

} // namespace ridge::convert
