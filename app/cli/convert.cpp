// ridge convert: a Hugging Face checkpoint to GGUF.
#include "app/cli/cli.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "convert/import/import.h"
#include "core/clock.h"
#include "engine/loading/machine.h"
#include "models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

struct ConvertCommand {
  api::ConvertRequest request;
  bool json = false;

  void run() const {
    const double start = core::seconds_now();
    convert::import::ConvertReport report;
    {
      Progress progress("converting");
      report = convert::import::convert(request, [&](int64_t done, int64_t total) { progress.update(done, total); });
    }
    for (const std::string& line : report.notes) note(line);
    const double elapsed = core::seconds_now() - start;
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const auto& [path, tensors, bytes] : report.files) {
      const std::string label = models::model_label(gguf::File::open(path));
      files.push_back({{"written", path}, {"label", label}, {"tensors", tensors}, {"file_bytes", bytes}});
      if (!json)
        fmt::print("{}: {}, {} tensors, {:.3f} GB{}\n", path, label, tensors, static_cast<double>(bytes) / 1e9,
                   files.size() == report.files.size() ? fmt::format(" in {:.1f} s", elapsed) : "");
    }
    if (!json) return;
    print_report("convert", {{"folder", request.input},
                             {"files", std::move(files)},
                             {"elapsed_seconds", elapsed},
                             {"notes", report.notes}});
  }
};

} // namespace

void add_convert_command(CLI::App& app) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = app.add_subcommand("convert", "convert a Hugging Face checkpoint to GGUF, with its image and "
                                                    "audio encoders in a second file, or convert a PEFT LoRA adapter "
                                                    "or an EAGLE-3 or DFlash draft head");
  command->add_option("folder", options->request.input, "folder with config.json, *.safetensors and the tokenizer")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("-o,--out", options->request.output,
                   "output file, written under a temporary name until complete; image and audio encoders go to "
                   "mmproj-OUT.gguf next to it, where run and chat find them")
      ->type_name("OUT.gguf");
  command
      ->add_option("--mmproj", options->request.mmproj,
                   "output file for the encoder; without -o, only the encoder is converted")
      ->type_name("FILE.gguf");
  command
      ->add_option("--base", options->request.base,
                   "for an adapter (adapter_config.json, adapter_model.safetensors) or an EAGLE-3 or DFlash draft "
                   "head: the base checkpoint, whose config.json is read, or for a head its GGUF file (default: the "
                   "one that the adapter names)")
      ->type_name("DIR|MODEL.gguf");
  command->add_flag("--text-only", options->request.text_only, "do not convert the encoders");
  command->add_option("--type", options->request.type, "type for unquantized matrices (default: keep theirs)")
      ->type_name("f16|bf16|f32|q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}, CLI::ignore_case));
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
