// ridge convert: a Hugging Face checkpoint to a GGUF file.
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
    const std::string label = models::model_label(gguf::File::open(request.output));
    if (json)
      return print_report("convert", {{"folder", request.input},
                                      {"written", request.output},
                                      {"label", label},
                                      {"tensors", report.tensors},
                                      {"file_bytes", report.file_bytes},
                                      {"elapsed_seconds", elapsed},
                                      {"notes", report.notes}});
    fmt::print("{}: {}, {} tensors, {:.3f} GB in {:.1f} s\n", request.output, label, report.tensors,
               static_cast<double>(report.file_bytes) / 1e9, elapsed);
  }
};

} // namespace

void add_convert_command(CLI::App& app) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = app.add_subcommand("convert", "turn a Hugging Face checkpoint into a GGUF file");
  command->add_option("folder", options->request.input, "holds config.json, *.safetensors and the tokenizer")
      ->type_name("DIR")
      ->required();
  command->add_option("-o,--out", options->request.output, "the file to write; appears when it is whole")
      ->type_name("OUT.gguf")
      ->required();
  command->add_option("--type", options->request.type, "what unquantized matrices become (default: what they are)")
      ->type_name("f16|bf16|f32|q8_0")
      ->check(CLI::IsMember({"f16", "bf16", "f32", "q8_0"}, CLI::ignore_case));
  command->add_flag("--json", options->json, "machine-readable");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
