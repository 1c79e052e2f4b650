#include "app/terminal/chat/chat_model.h"

#include "app/models/encoders.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/printable.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "engine/speculation/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace ridge::app {
namespace {

api::ModelOptions without_pictures(api::ModelOptions options) {
  options.mmproj.clear();
  return options;
}

} // namespace

ChatModel::ChatModel(api::ModelOptions options, api::GenerateRequest& request, const std::string& tools,
                     Toolbox& toolbox)
    : options_(std::move(options)), request_(request), toolbox_(toolbox) {
  if (!tools.empty()) tools_ = engine::read_tools(core::read_text_file(tools), tools);
  if (!options_.mmproj.empty()) encoder_to_use(options_.mmproj, options_.model); // throws if it does not fit
  open(without_pictures(options_), note);
  if (!toolbox_.empty()) {
    toolbox_.start(note); // the servers started before the model loaded
    offer_tools();
  }
  recommended_ = engine::take_model_defaults(request_.sampling, loaded().file, note);
  renew_answerer();
  conversation().set_system(request_.system);
}

void ChatModel::open(const api::ModelOptions& options, const engine::Notice& notice) {
  open_.reset();
  open_ = std::make_unique<Open>(engine::open_generating(options, load_on_terminal()));
  engine::LoadedModel& loaded = open_->loaded;
  for (const std::string& warning : loaded.need_tokenizer().warnings()) notice(warning);
  open_->chat_template.emplace(engine::choose_template(request_.chat_template, loaded.file, notice));
  engine::start_executor(loaded, engine::generating_config(options, loaded.program), options.device,
                         engine::placement_of(options), load_on_terminal());
  open_->session.emplace(*loaded.executor, loaded.program,
                         engine::make_speculator(options, loaded, load_on_terminal()));
  make_conversation(notice);
  renew_answerer();
}

void ChatModel::make_conversation(const engine::Notice& notice) {
  open_->conversation.emplace(loaded(), *open_->session, *open_->chat_template,
                              engine::template_variables(request_.chat_template, *open_->chat_template, notice));
  toolbox_.offer(*open_->conversation, tools_, notice);
}

void ChatModel::offer_tools() { toolbox_.offer(conversation(), tools_, note); }

void ChatModel::renew_conversation() {
  const engine::Json messages = conversation().messages();
  make_conversation(note);
  conversation().set_messages(messages, "conversation");
}

void ChatModel::open_instead(const api::ModelOptions& options, const api::ModelOptions& before,
                             const engine::Notice& notice) {
  const engine::Json messages = conversation().messages();
  std::exception_ptr problem;
  try {
    open(options, notice);
  } catch (...) {
    problem = std::current_exception();
    open(before, [](const std::string&) {}); // notices were shown before
  }
  conversation().set_messages(messages, "conversation");
  if (problem) std::rethrow_exception(problem);
}

void ChatModel::reopen(const api::ModelOptions& options) {
  const bool other = options.model != options_.model;
  open_instead(without_pictures(options), without_pictures(options_), note);
  options_ = options;
  if (!other) return;
  api::SamplingOptions& sampling = request_.sampling;
  const api::SamplingOptions usual;
  for (const engine::SamplingSetting& setting : engine::sampling_settings())
    if (setting.name != "predict" && setting.name != "seed" &&
        std::ranges::find(sampling.chosen, setting.name) == sampling.chosen.end())
      setting.set(sampling, setting.get(usual));
  recommended_ = engine::take_model_defaults(sampling, loaded().file, note);
  renew_answerer();
}

void ChatModel::renew_answerer() {
  open_->answerer = std::make_unique<engine::Answerer>(loaded(), session(), request_);
}

void ChatModel::take_pictures() {
  if (loaded().pictures) return;
  api::ModelOptions options = options_;
  options.mmproj = encoder_to_use(options_.mmproj, options_.model);
  if (options.mmproj.empty())
    throw Error(
        options_.mmproj == kNoEncoder
            ? "this chat takes no images or audio: it was started with --mmproj none"
            : "this chat takes no images or audio: no mmproj*.gguf for the model next to it; start with --mmproj FILE");
  note(fmt::format("the encoder is {}", core::printable(options.mmproj, 300)));
  open_instead(options, without_pictures(options_), [](const std::string&) {}); // notices were shown before
}

} // namespace ridge::app
