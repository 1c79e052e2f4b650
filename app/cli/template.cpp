// ridge template: renders messages with a chat template.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/json/parse.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/machine.h"
#include "engine/options.h"

#include <cstdio>

namespace ridge::app {
namespace {

using Json = nlohmann::ordered_json;

struct TemplateCommand {
  std::string model, file, name, messages, tools, bos, eos, now, variables;
  bool no_generation_prompt = false, json = false;

  void run() const {
    if (model.empty() + file.empty() + name.empty() != 2)
      throw Error("template: give one of -m FILE, --template-file FILE and --chat-template NAME", Error::kUsage);
    text::ChatOptions options;
    options.add_generation_prompt = !no_generation_prompt;
    options.bos_token = bos;
    options.eos_token = eos;
    if (!now.empty()) options.now = text::parse_time(now);
    if (!tools.empty()) options.tools = read_json(tools);
    Json list = read_json(messages);
    if (list.is_object() && list.contains("messages")) {
      if (list.contains("tools") && tools.empty()) options.tools = list["tools"];
      list = Json(list["messages"]);
    }
    const text::ChatTemplate chosen = choose(options);
    options.extra = engine::template_variables({.variables = variables}, chosen, note);
    const std::string text = chosen.render(list, options);
    if (json) return print_report("template", {{"text", text}});
    write_stdout(text);
  }

  // A given model supplies BOS and EOS unless set.
  text::ChatTemplate choose(text::ChatOptions& options) const {
    using text::ChatTemplate;
    if (!file.empty()) return ChatTemplate::parse(core::read_text_file(file), file);
    if (!name.empty()) return ChatTemplate::builtin(name);
    const gguf::File gguf = gguf::File::open(model);
    if (const auto tokenizer = engine::find_tokenizer(gguf)) {
      if (bos.empty() && tokenizer->bos() >= 0) options.bos_token = tokenizer->token_text(tokenizer->bos());
      if (eos.empty() && tokenizer->eos() >= 0) options.eos_token = tokenizer->token_text(tokenizer->eos());
    }
    return engine::choose_template({}, gguf, note);
  }

  static Json read_json(const std::string& path) {
    return core::parse_json(core::read_text_file(path), path, {.exact_numbers = true});
  }
};

} // namespace

void add_template_command(CLI::App& app) {
  auto options = std::make_shared<TemplateCommand>();
  CLI::App* command = app.add_subcommand("template", "render a chat template");
  command->add_option("-m,--model", options->model, "GGUF file or name of the model whose template is used")
      ->type_name(kModelType);
  command->add_option("--template-file", options->file, "file with a Jinja template")->type_name("FILE");
  command->add_option("--chat-template", options->name, "built-in template")->type_name("NAME");
  command->add_option("--messages", options->messages, "JSON list of messages (-: standard input)")
      ->type_name("FILE")
      ->required();
  command->add_option("--tools", options->tools, "JSON list of tools")->type_name("FILE");
  command
      ->add_option("--chat-template-kwargs", options->variables,
                   "more variables for the template, e.g. '{\"enable_thinking\": false}'")
      ->type_name("JSON");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt,
                    "do not open the assistant's turn at the end");
  command->add_option("--bos", options->bos, "beginning-of-text token")->type_name("TEXT");
  command->add_option("--eos", options->eos, "end-of-text token")->type_name("TEXT");
  command->add_option("--now", options->now, "the time returned by strftime_now: 2026-01-15T12:00:00")
      ->type_name("TIME");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
