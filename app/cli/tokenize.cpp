// ridge tokenize and ridge detokenize.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/model_names.h"
#include "app/report/report.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/machine.h"
#include "models/guide.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace ridge::app {
namespace {

std::unique_ptr<text::Tokenizer> load_tokenizer(const gguf::File& file) {
  auto tokenizer = engine::find_tokenizer(file);
  if (!tokenizer) throw_error("{}: has no tokenizer", file.path());
  return tokenizer;
}

// C escapes for control characters and invalid UTF-8.
std::string quoted(const std::string& bytes) {
  return nlohmann::ordered_json(bytes).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct TokenizeCommand {
  std::string model;
  TextOptions text;
  bool ids = false, no_bos = false, special = false, json = false;

  void run() const {
    if (!text.given()) throw Error("tokenize: no text; write it in quotes, or give -p TEXT or -f FILE", Error::kUsage);
    const std::string input = text.read();
    const gguf::File file = model.empty() ? models::open_guide() : gguf::File::open(model);
    const auto tokenizer = load_tokenizer(file);
    const std::vector<int32_t> tokens = tokenizer->encode(input, {.add_special = !no_bos, .parse_special = special});
    if (ids) {
      fmt::print("{}\n", fmt::join(tokens, " "));
    } else if (json) {
      auto list = nlohmann::ordered_json::array();
      for (int32_t token : tokens) list.push_back({{"id", token}, {"text", tokenizer->piece(token)}});
      print_report("tokenize", {{"tokens", list}});
    } else {
      for (int32_t token : tokens) fmt::print("{:>7}  {}\n", token, quoted(std::string(tokenizer->piece(token))));
      write_stderr(fmt::format("{} tokens\n", tokens.size()));
    }
  }
};

struct DetokenizeCommand {
  std::string model;
  std::vector<std::string> ids;
  bool special = false, json = false;

  void run() const {
    const std::vector<int32_t> tokens = parse_ids(fmt::format("{}", fmt::join(ids, " ")), "IDS");
    const gguf::File file = gguf::File::open(model);
    const auto tokenizer = load_tokenizer(file);
    for (int32_t token : tokens)
      if (token >= tokenizer->vocab_size())
        throw_error("IDS: token {} is outside the vocabulary (0 to {})", token, tokenizer->vocab_size() - 1);
    const std::string text = tokenizer->decode(tokens, {.render_special = special});
    if (json) return print_report("detokenize", {{"text", text}});
    write_stdout(text);
    if (stdout_is_terminal()) write_stdout("\n");
  }
};

} // namespace

void add_tokenize_commands(CLI::App& app) {
  {
    auto options = std::make_shared<TokenizeCommand>();
    CLI::App* command = app.add_subcommand("tokenize", "convert text to token ids");
    command
        ->add_option("-m,--model", options->model, "GGUF file with a tokenizer, or name (default: the built-in guide)")
        ->type_name(kModelType);
    options->text.add_to(*command, "the text");
    options->text.add_words(*command);
    command->add_flag("--ids", options->ids, "print only the ids on one line, separated by spaces");
    command->add_flag("--json", options->json, "print ids and texts as JSON");
    command->add_flag("--no-bos", options->no_bos, "do not add the beginning-of-text token");
    command->add_flag("--special", options->special, "parse special tokens in the text");
    command->callback([options] { options->run(); });
  }
  {
    auto options = std::make_shared<DetokenizeCommand>();
    CLI::App* command = app.add_subcommand("detokenize", "convert token ids to text");
    command->add_option("-m,--model", options->model, "GGUF file with a tokenizer, or name")
        ->type_name(kModelType)
        ->required();
    command->add_option("ids", options->ids, "token ids: 1,2,3 or 1 2 3")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name("IDS")
        ->required();
    command->add_flag("--special", options->special, "include special tokens in the output");
    command->add_flag("--json", options->json, "print JSON");
    command->callback([options] { options->run(); });
  }
}

} // namespace ridge::app
