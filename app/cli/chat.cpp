// ridge chat: on a terminal, or line by line from a pipe.
#include "app/terminal/chat/chat.h"
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/terminal/line_reader.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "engine/speculation/speculation.h"

#include <fmt/ranges.h>

namespace ridge::app {
namespace {

struct ChatCommand {
  api::ModelOptions model;
  api::GenerateRequest request;
  McpOptions mcp;
  std::string tools, first;
  bool context_shift = false, no_markdown = false;

  void run() {
    core::validate(request.sampling.params);
    engine::check_speculation(model);
    Toolbox toolbox(mcp);
    ChatModel opened(model, request, tools, toolbox);
    InterruptFlag interrupt; // before the prompt: Ctrl-C must never end the chat
    Chat chat(opened, toolbox, request, {.context_shift = context_shift, .markdown = !no_markdown}, interrupt);
    for (const std::string& file : request.media) chat.take("/image " + file);

    const bool interactive = stdin_is_terminal();
    if (interactive && !opened.recommended().empty())
      note(fmt::format("sampling settings recommended by the model file: {} (change them with /set)",
                       fmt::join(opened.recommended(), ", ")));
    if (interactive)
      note(fmt::format("{} on {}, context {} tokens. Type /help for commands, Ctrl-D to leave.",
                       model_title(opened.loaded().file), opened.loaded().executor->description(),
                       opened.session().context()));
    if (interactive && !toolbox.tools().empty())
      note(fmt::format("{} tools from {} MCP servers; you are asked before each call. /tools lists them.",
                       toolbox.tools().size(), toolbox.servers()));
    LineReader reader(interrupt, [&](const std::string& before) { return chat.completions(before); });
    if (interactive && !first.empty()) print_row("> ", 2, first);
    if (!first.empty() && !chat.take(first)) return;
    std::string message;
    while (true) {
      const LineReader::Event event = reader.read(message);
      if (event == LineReader::Event::end_of_input) break;
      if (event == LineReader::Event::interrupted) {
        note("[press Ctrl-D or type /exit to leave]");
        continue;
      }
      if (!chat.take(message, interactive)) break;
    }
    if (!interactive && chat.failed()) throw Error("some messages got no answer");
  }
};

} // namespace

void add_chat_command(CLI::App& app) {
  auto options = std::make_shared<ChatCommand>();
  CLI::App* command = app.add_subcommand("chat", "chat with a model in the terminal");
  add_model_options(*command, options->model, true);
  add_speculation_options(*command, options->model);
  add_batch_invariant_option(*command, options->model.batch_invariant);
  add_media_options(*command, options->request.media, options->model.mmproj);
  command->add_option("--system-prompt", options->request.system, "system prompt (-sys)")->type_name("TEXT");
  command->add_option("-p,--prompt", options->first, "a first message, sent immediately")->type_name("TEXT");
  command->add_flag("--no-markdown", options->no_markdown, kNoMarkdownHelp);
  command->add_flag("--context-shift", options->context_shift, "when the context is full, drop the oldest exchanges");
  command
      ->add_option("--tools", options->tools,
                   "functions that the model may call, as JSON in the format of OpenAI's API; you type their results")
      ->type_name("FILE");
  add_mcp_options(*command, options->mcp);
  add_template_options(*command, options->request.chat_template);
  add_sampling_options(*command, options->request.sampling);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
