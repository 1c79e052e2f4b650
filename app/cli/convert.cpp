// ridge convert: a Hugging Face checkpoint to a GGUF file.
#include "app/cli/cli.h"
#include "app/cli/report.h"
#include "app/terminal/terminal.h"
#include "convert/import/import.h"
#include "core/error.h"
#include "engine/machine.h"
#include "models/model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace ridge::app {
namespace {

struct ConvertCommand {
  std::string folder, out, type;
  bool json = false;

  void run() const {
    convert::import::ConvertOptions options;
    if (!type.empty()) options.type = quant::find_format(type)->type;
    const auto start = std::chrono::steady_clock::now();
    convert::import::ConvertReport report;
    {
      Progress progress("converting");
      options.progress = [&](int64_t done, int64_t total) { progress.update(done, total); };
      report = convert::import::convert(folder, out, options);
    }
    for (const std::string& line : report.notes) note(line);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const std::string label = models::model_label(gguf::File::open(out));
    if (json)
      return print_report("convert", {{"folder", folder},
                                      {"written", out},
                                      {"label", label},
                                      {"tensors", report.tensors},
                                      {"file_bytes", report.file_bytes},
                                      {"elapsed_seconds", elapsed.count()},
                                      {"notes", report.notes}});
    fmt::print("{}: {}, {} tensors, {:.3f} GB in {:.1f} s\n", out, label, report.tensors,
               static_cast<double>(report.file_bytes) / 1e9, elapsed.count());
  }
};

} // namespace

void add_convert_command(CLI::App& app) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = app.add_subcommand("convert", "turn a Hugging Face checkpoint into a GGUF file");
  command->add_option("folder", options->folder, "holds config.json, *.safetensors and the tokenizer")
      ->type_name("DIR")
      ->required();
  command->add_option("-o,--out", options->out, "the file to write; appears when it is whole")
      ->type_name("OUT.gguf")
      ->required();
  command->add_option("--type", options->type, "what unquantized matrices become (default: what they are)")
      ->type_name("f16|bf16|f32|q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}, CLI::ignore_case));
  command->add_flag("--json", options->json, "machine-readable");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
