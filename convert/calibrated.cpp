#include "convert/calibrated.h"

#include "convert/calibrated_layer.h"
#include "convert/tuning/network.h"
#include "convert/tuning/tuning.h"
#include "core/error.h"
#include "core/files/hash.h"
#include "quant/feedback/block_factors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <system_error>
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
  hidden_ = embed(true);
  if (method_.follows_original()) original_ = embed(false);
}

// Input of layer 0.
std::vector<float> CalibratedQuantizer::embed(bool quantized) const {
  const core::Op& first = program_.ops.at(0);
  const auto* params = std::get_if<core::EmbedParams>(&first.params);
  const float scale = params ? params->scale : 1.0f;
  const core::Weight& table = program_.weights[first.weights[0]];
  const auto source = std::ranges::find(plan_.sources, table.name, &WeightSource::name);
  const quant::FormatInfo& target = *plan_.types[static_cast<size_t>(source - plan_.sources.begin())].format();
  const int64_t width = table.cols;
  std::vector<float> rows(static_cast<size_t>(text_.tokens() * width));
  std::vector<std::byte> packed(static_cast<size_t>(target.row_bytes(width)));
  float* row = rows.data();
  for (const auto& chunk : text_.chunks)
    for (const int32_t token : chunk) {
      source->decode(token, 1, row);
      if (quantized && target.packed && source->type() != target.type) {
        quant::encode_rows(target.type, row, 1, width, {}, packed.data());
        target.decode(packed.data(), width, row);
      }
      for (int64_t i = 0; i < width; ++i) row[i] *= scale;
      row += width;
    }
  core::Program rest = program_; // up to layer 0
  const auto end = std::ranges::find_if(rest.ops, [](const core::Op& op) { return op.layer >= 0; });
  rest.ops.erase(end, rest.ops.end());
  rest.ops.erase(rest.ops.begin());
  if (rest.ops.empty()) return rows;
  rest.input = first.outputs[0];
  rest.output = rest.ops.back().outputs.at(0);
  return LayerRun(std::move(rest), text_, make_executor_, threads_).rows(rows);
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
  if (index + 1 == layers_) return;
  const auto advance = [&](const core::Program& form, std::vector<float>& rows) {
    rows = LayerRun(form, text_, make_executor_, threads_).rows(rows);
  };
  layer.program.output = layer.original.output = layer.output;
  advance(layer.program, hidden_);
  if (!original_.empty()) advance(layer.original, original_);
}

void CalibratedQuantizer::make_tensors(Layer& layer, int32_t index) {
  if (journal_ && index < journal_->records()) return layer.take(journal_->read(index));
  layer.weigh_tokens();
  if (method_.scales) layer.find_scales();
  layer.quantize();
  store(ready_);
}

void CalibratedQuantizer::store(const PreparedTensors& tensors) {
  if (!journal_ || journal_->append(tensors)) return;
  note_(fmt::format("{}: cannot be written; if the process is killed, it restarts at layer {}", journal_->path(),
                    std::min(journal_->records(), layers_)));
  journal_ = nullptr;
}

const Prepared* CalibratedQuantizer::tensor(std::string_view name) {
  ready_.erase(given_);
  given_ = name;
  int32_t layer = tunes_ ? layers_ - 1 : -1;
  for (const core::Op& op : program_.ops)
    for (const WeightId id : op.weights)
      if (program_.weights[id].name == name && op.layer >= 0) layer = std::max(layer, op.layer);
  while (next_layer_ <= layer) quantize_layer(next_layer_++);
  if (std::exchange(tunes_, false)) tune_tensors();
  const auto found = ready_.find(name);
  return found == ready_.end() ? nullptr : &found->second;
}

void CalibratedQuantizer::use_tuning(std::vector<std::vector<int32_t>> texts,
                                     std::function<void(int64_t done, int64_t total)> progress,
                                     std::function<void(const std::string& line)> note) {
  tuning_texts_ = std::move(texts);
  note_ = std::move(note);
  tuning_progress_ = std::move(progress);
  const std::string obstacle = obstacle_to_tuning();
  tunes_ = obstacle.empty();
  if (!tunes_) note_(fmt::format("scales and norms are not tuned by the whole model's divergence: {}", obstacle));
}

std::string CalibratedQuantizer::obstacle_to_tuning() const {
  constexpr int64_t kMostWeights = 600'000'000; // twice in f32
  int64_t weights = 0;
  for (const WeightSource& source : plan_.sources)
    if (source.has_weights()) weights += source.weights();
  if (weights > kMostWeights) return fmt::format("it has more than {} million weights", kMostWeights / 1'000'000);
  if (tuning_texts_.size() < tuning::kFewestTexts)
    return fmt::format("the text has fewer than {} tokens", tuning::kFewestTexts * text_.chunks[0].size());
  if (const std::string op = tuning::Network::obstacle(program_); !op.empty())
    return fmt::format("no gradient of {}", op);
  return "";
}

void CalibratedQuantizer::tune_tensors() {
  std::vector<std::string> norms;
  for (const core::Op& op : program_.ops) {
    if (op.kind != core::OpKind::rms_norm) continue;
    const std::string& name = program_.weights[op.weights[0]].name;
    const auto source = std::ranges::find(plan_.sources, name, &WeightSource::name);
    if (source == plan_.sources.end() || source->type() != gguf::TensorType(quant::Type::F32) || ready_.contains(name))
      continue;
    const auto bytes = source->packed(0, source->rows());
    ready_[name] = {{bytes.begin(), bytes.end()}, {}};
    norms.push_back(name);
  }
  std::vector<tuning::Tensor> tensors;
  for (size_t i = 0; i < plan_.sources.size(); ++i) {
    const WeightSource& source = plan_.sources[i];
    const auto made = ready_.find(source.name());
    if (made == ready_.end()) continue;
    const quant::Type type = plan_.types[i].format()->type;
    if (type != quant::Type::F32 && !quant::BlockFactors::of(type)) continue;
    tensors.push_back({type, source.rows(), source.cols(), &made->second.bytes, source.packed(0, 1).data(),
                       source.type().format()->row_bytes(source.cols())});
  }
  constexpr std::string_view kState; // no tensor's name
  tuning::Checkpoints checkpoints;
  checkpoints.save = [&](std::vector<std::byte> state) {
    PreparedTensors record;
    record[std::string(kState)] = {std::move(state), {}};
    store(record);
  };
  if (journal_ && journal_->records() > layers_)
    checkpoints.last = journal_->read(journal_->records() - 1)[std::string(kState)].bytes;
  const tuning::Outcome outcome = tuning::tune(program_, tensors, tuning_texts_, tuning_progress_, checkpoints);
  note_(fmt::format("scales and norms: divergence on text kept back {:.5f} -> {:.5f} nats/token{}", outcome.before,
                    outcome.after, outcome.kept ? "" : ", so they stay as they were"));
  if (!outcome.kept)
    for (const std::string& name : norms) ready_.erase(name);
}

namespace {

// File: kMagic, request hash, records (payload bytes, payload hash, payload). A payload has per tensor: name bytes,
// data bytes, error, name, data.
constexpr uint64_t kMagic = 0x31796c6567646972; // "ridgely1"
constexpr int64_t kWord = sizeof(uint64_t);

uint64_t hash_of(std::span<const std::byte> bytes) { return core::Hash().add(bytes).value(); }

template <typename T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

std::vector<std::byte> payload_of(const PreparedTensors& tensors) {
  std::vector<std::byte> payload;
  for (const auto& [name, tensor] : tensors) {
    put(payload, uint64_t{name.size()});
    put(payload, uint64_t{tensor.bytes.size()});
    put(payload, tensor.error);
    const auto letters = std::as_bytes(std::span(name));
    payload.insert(payload.end(), letters.begin(), letters.end());
    payload.insert(payload.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return payload;
}

// nullopt: invalid.
std::optional<PreparedTensors> parse_payload(std::span<const std::byte> rest) {
  PreparedTensors tensors;
  while (!rest.empty()) {
    struct {
      uint64_t name, data;
      quant::ErrorStats error;
    } head;
    static_assert(sizeof head == 2 * kWord + sizeof(quant::ErrorStats));
    if (rest.size() < sizeof head) return std::nullopt;
    std::memcpy(&head, rest.data(), sizeof head);
    rest = rest.subspan(sizeof head);
    if (head.name > rest.size() || head.data > rest.size() - head.name) return std::nullopt;
    const auto data = rest.subspan(head.name, head.data);
    tensors[std::string(reinterpret_cast<const char*>(rest.data()), head.name)] = {{data.begin(), data.end()},
                                                                                   head.error};
    rest = rest.subspan(head.name + head.data);
  }
  return tensors;
}

template <typename T>
bool get(std::fstream& file, T& value) {
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

// nullopt: incomplete.
std::optional<std::vector<std::byte>> read_payload(std::fstream& file, int64_t at, int64_t file_bytes) {
  uint64_t bytes = 0, hash = 0;
  file.clear();
  if (!file.seekg(at) || !get(file, bytes) || !get(file, hash)) return std::nullopt;
  if (bytes > static_cast<uint64_t>(file_bytes - at - 2 * kWord)) return std::nullopt;
  std::vector<std::byte> payload(bytes);
  if (!file.read(reinterpret_cast<char*>(payload.data()), static_cast<std::streamsize>(bytes))) return std::nullopt;
  if (hash_of(payload) != hash) return std::nullopt;
  return payload;
}

} // namespace

LayerJournal::LayerJournal(std::string path, uint64_t request) : path_(std::move(path)) {
  constexpr auto kMode = std::ios::in | std::ios::out | std::ios::binary;
  std::error_code unknown;
  if (std::filesystem::exists(path_, unknown) && !std::filesystem::is_regular_file(path_, unknown))
    throw_error("{}: not a regular file, but unfinished work must be stored there; remove it", path_);
  file_.open(path_, kMode);
  if (file_ && find_records(request)) {
    std::filesystem::resize_file(path_, static_cast<uintmax_t>(end_));
    return;
  }
  file_.close();
  file_.open(path_, kMode | std::ios::trunc);
  std::vector<std::byte> head;
  put(head, kMagic);
  put(head, request);
  file_.write(reinterpret_cast<const char*>(head.data()), std::ssize(head)).flush();
  if (!file_) throw_error("{}: cannot be written: {}", path_, std::strerror(errno));
  end_ = std::ssize(head);
}

bool LayerJournal::find_records(uint64_t request) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path_));
  uint64_t magic = 0, found = 0;
  if (!get(file_, magic) || !get(file_, found) || magic != kMagic || found != request) return false;
  end_ = 2 * kWord;
  while (const auto payload = read_payload(file_, end_, bytes)) {
    if (!parse_payload(*payload)) break;
    const int64_t size = 2 * kWord + std::ssize(*payload);
    records_.push_back({end_, size});
    end_ += size;
  }
  return true;
}

PreparedTensors LayerJournal::read(int32_t number) {
  const Record record = records_.at(static_cast<size_t>(number));
  if (const auto payload = read_payload(file_, record.at, record.at + record.bytes))
    if (auto tensors = parse_payload(*payload)) return *std::move(tensors);
  throw_error("{}: can no longer be read; remove it and start again", path_);
}

bool LayerJournal::append(const PreparedTensors& tensors) {
  const std::vector<std::byte> payload = payload_of(tensors);
  std::vector<std::byte> head;
  put(head, uint64_t{payload.size()});
  put(head, hash_of(payload));
  file_.clear();
  file_.seekp(end_);
  file_.write(reinterpret_cast<const char*>(head.data()), std::ssize(head));
  file_.write(reinterpret_cast<const char*>(payload.data()), std::ssize(payload)).flush();
  if (!file_) return false;
  records_.push_back({end_, std::ssize(head) + std::ssize(payload)});
  end_ += records_.back().bytes;
  return true;
}

void LayerJournal::remove() {
  file_.close();
  std::filesystem::remove(path_);
}

} // namespace ridge::convert
