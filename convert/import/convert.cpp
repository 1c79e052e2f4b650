// Plans all tensors, builds the model's Program with their shapes as a check, writes row by row.
#include "convert/import/config/config.h"
#include "convert/import/config/generation.h"
#include "convert/import/config/names.h"
#include "convert/import/dflash.h"
#include "convert/import/eagle.h"
#include "convert/import/encoders/fields.h"
#include "convert/import/encoders/plan.h"
#include "convert/import/import.h"
#include "convert/import/peft.h"
#include "convert/import/plan.h"
#include "convert/import/tokenizers/tokenizer.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "gguf/safetensors.h"
#include "gguf/writer.h"
#include "models/dflash.h"
#include "models/eagle.h"
#include "models/model.h"
#include "models/recipes.h"
#include "models/sound/encoder.h"
#include "models/vision/projector.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <sys/mman.h>

namespace ridge::convert::import {

using models::vision::Media;

namespace {

// A GGUF image with zero tensors that use no memory.
class ZeroImage {
 public:
  ZeroImage(const std::vector<std::byte>& head, uint64_t size)
      : size_(size),
        bytes_(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (bytes_ == MAP_FAILED) throw_error("no address space for a file of {} bytes", size);
    std::memcpy(bytes_, head.data(), head.size());
  }
  ~ZeroImage() { ::munmap(bytes_, size_); }
  ZeroImage(const ZeroImage&) = delete;
  ZeroImage& operator=(const ZeroImage&) = delete;
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(bytes_), size_}; }

 private:
  uint64_t size_;
  void* bytes_;
};

std::vector<gguf::TensorInfo> infos_of(const std::vector<Output>& outputs) {
  std::vector<gguf::TensorInfo> infos;
  for (const Output& output : outputs) infos.push_back(output.info);
  return infos;
}

// Calls `use` with a file of these tensors, zero except for `wanted` outputs.
template <typename Use>
void with_shapes(const gguf::Metadata& metadata, const std::vector<gguf::TensorInfo>& shapes,
                 const std::vector<Output>& outputs, bool (*wanted)(const Output&), const std::string& folder,
                 Use&& use) {
  const std::vector<std::byte> head = gguf::file_head(metadata, shapes);
  const ZeroImage image(head, gguf::file_bytes(metadata, shapes));
  const auto file = gguf::File::from_span(image.bytes(), folder);
  for (const Output& output : outputs) {
    if (!wanted(output)) continue;
    std::byte* to = image.bytes().data() + (file.find_tensor(output.info.name)->data.data() - image.bytes().data());
    output.write([&](std::span<const std::byte> bytes) { to = std::ranges::copy(bytes, to).out; });
  }
  try {
    use(file);
  } catch (const Error& error) {
    throw_error("the checkpoint's tensors do not match the model described by its config.json: {}", error.what());
  }
}

// Throws Error unless the tensors exactly match the hyperparameters.
void check_model(const gguf::Metadata& metadata, const Plan& plan, const Config& config, const std::string& folder) {
  const auto is_rope = [](const Output& output) { // read when a Program is built
    return output.parts.empty() && output.info.name.starts_with("rope_f");
  };
  const auto is_constant = [](const Output& output) { return output.info.name == "d2t"; };
  if (config.is_draft_head()) {
    const StandIn model = stand_in_for_target(config, metadata);
    const auto none = [](const Output&) { return false; };
    with_shapes(metadata, plan.shapes, plan.outputs, is_constant, folder, [&](const gguf::File& head) {
      with_shapes(model.metadata, model.shapes, {}, none, folder, [&](const gguf::File& target) {
        (config.is_dflash() ? models::build_dflash_head(head, target) : models::build_eagle_head(head, target));
      });
    });
    return;
  }
  with_shapes(metadata, plan.shapes, plan.outputs, is_rope, folder, [&](const gguf::File& file) {
    for (int64_t head = 0; head < config.drafts; ++head) models::build_draft_head(file, head);
    if (models::build_program(file).start_token >= 0) models::build_program(file, models::Ending::encoded);
  });
}

// Includes the outputs of first layers, which are concatenated.
void check_width(int64_t row, int64_t width) {
  if (row % width != 0)
    throw_error("its encoder produces rows of {} elements, but the language model has {}", row, width);
}

void check_pictures(const gguf::File& file, int64_t width) {
  constexpr int64_t kSide = 64;
  const models::vision::Model model(file);
  for (const models::vision::Part& part : model.cut(media::Picture(kSide, kSide)))
    if (part.tile) return check_width(model.build(part.tile->width, part.tile->height).width(), width);
}

void check_sounds(const gguf::File& file, int64_t width) {
  const models::sound::Model model(file);
  const std::vector<float> silence(models::sound::kRate / 10);
  for (const models::sound::Part& part : model.cut(silence))
    if (part.frames) return check_width(model.build(part.frames->count).width(), width);
}

std::optional<quant::Type> parse_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const quant::FormatInfo* format = quant::find_format(name);
  if (!format) throw_error("unknown type '{}'", name);
  return format->type;
}

std::string model_name(const std::string& folder) {
  std::filesystem::path path = std::filesystem::weakly_canonical(folder);
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

struct PlannedFile {
  std::string path;
  gguf::Metadata metadata;
  std::vector<Output> outputs;
};

gguf::Metadata begin_metadata(const char* type, const std::string& folder) {
  gguf::Metadata metadata;
  metadata.set("general.architecture", "");
  metadata.set("general.type", type);
  metadata.set("general.name", model_name(folder));
  return metadata;
}

void set_types(PlannedFile& file, std::initializer_list<std::string_view> matrix) {
  for (const Output& output : file.outputs)
    if (std::ranges::find(matrix, output.info.name) != matrix.end())
      if (const auto* format = output.info.type.format())
        if (const auto type = models::plain_file_type(format->type)) file.metadata.set("general.file_type", *type);
  file.metadata.set("general.quantization_version", uint32_t{2});
}

class Conversion {
 public:
  explicit Conversion(const api::ConvertRequest& request)
      : request_(request), type_(parse_type(request.type)), files_(request.input),
        text_(begin_metadata("model", request.input)), tensors_(gguf::Safetensors::open(request.input)),
        config_(read_config(files_, text_, &tensors_)) {
    text_.set("general.architecture", config_.architecture->name);
    if (!request.base.empty() && !config_.is_draft_head())
      throw Error("--base: goes with the folder of a PEFT adapter or of a draft head", Error::kUsage);
  }

  ConvertReport run(const ConvertProgress& progress) {
    std::vector<PlannedFile> planned;
    if (!request_.output.empty()) planned.push_back(plan_text());
    if (const Families families = wanted_families(); !families.empty()) planned.push_back(plan_encoders(families));
    write(planned, progress);
    return std::move(report_);
  }

 private:
  PlannedFile plan_text() {
    const std::unique_ptr<Plan> checked = checked_plan();
    Plan& plan = *checked;
    if (plan.has_drafts) config_.notes.push_back("layers that draft tokens are left out");
    PlannedFile file = {request_.output, text_, std::move(plan.outputs)};
    set_types(file, {"blk.0.ffn_down.weight", "blk.0.ffn_down_exps.weight"});
    if (!plan.method().empty()) file.metadata.set("ridge.quant.source", plan.method());
    if (!plan.planar_scheme.empty()) file.metadata.set("ridge.quant.scheme", plan.planar_scheme);
    read_sampling(files_, file.metadata, config_.notes);
    for (const auto& [key, value] : tokenizer().entries())
      if (!config_.is_dflash() || !file.metadata.find(key)) file.metadata.set(key, value); // its mask is its own
    return file;
  }

  std::unique_ptr<Plan> checked_plan() {
    try {
      auto plan = std::make_unique<Plan>(tensors_, config_, type_);
      plan->run();
      for (const auto& [key, values] : plan->numbers) text_.set(key, values);
      for (const auto& [key, values] : plan->lists) text_.set(key, values);
      if (config_.is_eagle()) read_eagle_target(config_, tensors_, request_.base, text_);
      if (config_.is_dflash()) read_dflash_target(config_, text_);
      check_model(text_, *plan, config_, request_.input);
      return plan;
    } catch (const Error& error) {
      if (config_.drafts == 0) throw;
      // A model is of use without its draft heads.
      text_ = begin_metadata("model", request_.input);
      config_ = read_config(files_, text_);
      text_.set("general.architecture", config_.architecture->name);
      config_.notes.push_back(fmt::format("draft heads cannot be run: {}", error.what()));
      return checked_plan();
    }
  }

  using Families = std::vector<const EncoderFamily*>;
  Families wanted_families() {
    Families found;
    if (!request_.text_only) {
      for (const Media media : {Media::picture, Media::sound})
        if (const EncoderFamily* family = find_family(config_, media); family && has_encoder(*family, tensors_))
          found.push_back(family);
        else if (const char* what = left_out(media))
          config_.notes.push_back(fmt::format("the {} encoder is left out: it is missing or not supported", what));
    }
    if (found.empty() && (!request_.mmproj.empty() || request_.output.empty()))
      throw_error("{}: {} has no image or audio encoder that can be converted", request_.input,
                  core::printable(config_.hf_class));
    return found;
  }

  const char* left_out(Media media) const {
    if (media == Media::picture) return config_.fields().find("vision_config") ? "image" : nullptr;
    return config_.fields().find("audio_config") ? "audio" : nullptr;
  }

  PlannedFile plan_encoders(const Families& families) {
    try {
      PlannedFile file = {mmproj_path(request_), begin_metadata("mmproj", request_.input), {}};
      for (const EncoderFamily* family : families) plan_encoder(*family, families.size() == 1, file);
      with_shapes(
          file.metadata, infos_of(file.outputs), file.outputs, [](const Output&) { return false; }, request_.input,
          [&](const gguf::File& planned) {
            for (const EncoderFamily* family : families)
              (family->media == Media::picture ? check_pictures : check_sounds)(planned, config_.width);
          });
      set_types(file, {"v.blk.0.ffn_down.weight", "a.blk.0.ffn_down.weight", "mm.input_projection.weight"});
      return file;
    } catch (const Error& error) {
      if (request_.output.empty()) throw;
      throw_error("{} (--text-only converts without the image and audio encoders)", error.what());
    }
  }

  void plan_encoder(const EncoderFamily& family, bool is_alone, PlannedFile& file) {
    const EncoderFields fields = read_encoder_fields(family, config_, files_, is_alone, file.metadata, config_.notes);
    EncoderPlan plan(tensors_, family, fields, type_);
    plan.run();
    if (!family.table_row.empty())
      plan.add_table_row(find_names(tensors_).table + ".weight", token_of(family.table_row));
    std::ranges::move(plan.outputs, std::back_inserter(file.outputs));
  }

  const gguf::Metadata& tokenizer() {
    if (tokenizer_) return *tokenizer_;
    JsonFiles base(request_.base); // a head's folder has no tokenizer, and it needs none
    const bool of_base = config_.is_draft_head() && std::filesystem::is_directory(request_.base);
    std::vector<std::string> unneeded;
    read_tokenizer(of_base ? base : files_, config_.vocab, tokenizer_.emplace(),
                   config_.is_draft_head() ? unneeded : config_.notes);
    return *tokenizer_;
  }

  int64_t token_of(std::string_view text) {
    const gguf::OwnedValue* list = tokenizer().find("tokenizer.ggml.tokens");
    const auto tokens = list ? list->view().as_strings() : std::nullopt;
    if (tokens)
      if (const auto found = std::ranges::find(*tokens, text); found != tokens->end()) return found - tokens->begin();
    throw_error("{}: the tokenizer has no token {}, which separates the lines of an image", request_.input, text);
  }

  void write(const std::vector<PlannedFile>& planned, const ConvertProgress& progress) {
    std::vector<std::unique_ptr<gguf::Writer>> writers;
    int64_t all = 0, done = 0;
    for (const PlannedFile& file : planned) {
      writers.push_back(std::make_unique<gguf::Writer>(file.path, file.metadata, infos_of(file.outputs)));
      all += static_cast<int64_t>(writers.back()->size_bytes());
    }
    for (size_t i = 0; i < planned.size(); ++i)
      for (const Output& output : planned[i].outputs) {
        output.write([&](std::span<const std::byte> bytes) {
          writers[i]->write(bytes);
          done += std::ssize(bytes);
          if (progress) progress(done, all);
        });
        for (const gguf::SafeTensor* part : output.parts) tensors_.release(*part);
        tensors_.check();
      }
    for (size_t i = 0; i < planned.size(); ++i) {
      writers[i]->finish();
      report_.files.push_back(
          {planned[i].path, std::ssize(planned[i].outputs), static_cast<int64_t>(writers[i]->size_bytes())});
    }
    report_.notes = std::move(config_.notes);
  }

  const api::ConvertRequest& request_;
  const std::optional<quant::Type> type_;
  JsonFiles files_;
  gguf::Metadata text_;
  std::optional<gguf::Metadata> tokenizer_;
  const gguf::Safetensors tensors_;
  Config config_;
  ConvertReport report_;
};

} // namespace

std::string mmproj_path(const api::ConvertRequest& request) {
  if (!request.mmproj.empty() || request.output.empty()) return request.mmproj;
  const std::filesystem::path output = request.output;
  return (output.parent_path() / ("mmproj-" + output.filename().string())).string();
}

ConvertReport convert(const api::ConvertRequest& request, const ConvertProgress& progress) {
  if (is_peft_folder(request.input)) return convert_peft(request);
  if (request.output.empty() && request.mmproj.empty())
    throw Error("convert: give the output file with -o, or the output file for the encoders with --mmproj",
                Error::kUsage);
  if (request.text_only && !request.mmproj.empty())
    throw Error("--text-only: cannot be combined with --mmproj", Error::kUsage);
  if (std::filesystem::weakly_canonical(request.output) == std::filesystem::weakly_canonical(mmproj_path(request)))
    throw Error("--mmproj: must differ from the file of -o", Error::kUsage);
  return Conversion(request).run(progress);
}

} // namespace ridge::convert::import
