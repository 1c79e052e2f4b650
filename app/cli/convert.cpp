// ridge convert: a Hugging Face checkpoint to GGUF.
#include "app/cli/cli.h"
#include "app/report/report.h"
#include "app/terminal/terminal.h"
#include "convert/import/import.h"
#include "core/clock.h"
#include "engine/machine.h"
#include "models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

struct ConvertCommand {
  core::ConvertRequest request;
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
  CLI::App* command = app.add_subcommand("convert", "turn a Hugging Face checkpoint into a GGUF file, and its encoders "
                                                    "of pictures and sounds into another; or a LoRA "
                                                    "adapter of PEFT, or an EAGLE-3 draft head");
  command->add_option("folder", options->request.input, "holds config.json, *.safetensors and the tokenizer")
      ->type_name("DIR")
      ->required();
  command
      ->add_option(
          "-o,--out", options->request.output,
          "the file to write; appears when it is whole. Encoders of pictures and sounds become mmproj-OUT.gguf beside "
          "it, where run and chat find it")
      ->type_name("OUT.gguf");
  command->add_option("--mmproj", options->request.mmproj, "the encoder's file instead; without -o: only the encoder")
      ->type_name("FILE.gguf");
  command
      ->add_option(
          "--base", options->request.base,
          "of an adapter (adapter_config.json, adapter_model.safetensors) or an EAGLE-3 draft head: the "
          "checkpoint that it is for, whose config.json is read, or of a head its GGUF file; default: what the "
          "adapter names")
      ->type_name("DIR|MODEL.gguf");
  command->add_flag("--text-only", options->request.text_only, "leave the encoder out");
  command->add_option("--type", options->request.type, "what unquantized matrices become (default: what they are)")
      ->type_name("f16|bf16|f32|q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}, CLI::ignore_case));
  command->add_flag("--json", options->json, "machine-readable");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
