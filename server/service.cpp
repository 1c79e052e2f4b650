#include "server/service.h"

#include "engine/options.h"

#include <algorithm>
#include <utility>

namespace ridge::server {
namespace {

constexpr int64_t kMostKnown = 256; // answers whose tokens are remembered where prompts are kept

} // namespace

Service::Service(const engine::LoadedModel& model, const text::ChatTemplate& chat_template, Json template_variables,
                 core::SamplingOptions sampling, std::string name, engine::Notice log,
                 std::unique_ptr<engine::Speculator> speculator, const engine::PrefixSettings& prefixes)
    : ModelService(model, std::move(name), std::move(log)), template_(chat_template),
      call_format_(engine::find_call_format(chat_template)), variables_(std::move(template_variables)),
      sampling_(std::move(sampling)), scheduler_(*model.executor, model.program, std::move(speculator), prefixes) {}

std::shared_ptr<const text::TokenTable> Service::token_table() {
  const std::scoped_lock lock(mutex_);
  if (!token_table_) token_table_ = engine::make_token_table(tokenizer());
  return token_table_;
}

std::shared_ptr<engine::Sequence> Service::start(const Generation& generation) {
  engine::SequenceRequest request;
  request.prompt = generation.prompt;
  request.sampling = generation.sampling.params;
  request.limit = generation.sampling.max_tokens;
  request.keep_choices = generation.keep_choices;
  request.priority = generation.priority;
  if (generation.calls)
    request.constraint = std::make_unique<engine::CallConstraint>(generation.calls, token_table(), tokenizer(),
                                                                  generation.chat_prompt->bytes());
  else if (const std::string gbnf = engine::grammar_text(generation.sampling); !gbnf.empty())
    request.constraint = std::make_unique<engine::GrammarConstraint>(gbnf, token_table());
  request.is_end = [this, ends = !generation.sampling.ignore_eos || request.constraint](int32_t token) {
    model().file.check(); // throws where the file was truncated: the token would be wrong
    return ends && tokenizer().is_eog(token);
  };
  return scheduler_.submit(std::move(request));
}

engine::AnswerText Service::text_of(const Generation& generation) const {
  std::optional<std::string_view> prompt;
  if (generation.chat_prompt) prompt = generation.chat_prompt->bytes();
  engine::AnswerText text(tokenizer(), generation.sampling.stop, prompt, generation.calls);
  if (const Json schema = generation.calls ? Json() : engine::answer_schema(generation.sampling); !schema.is_null())
    text.check_content(schema);
  return text;
}

Generation Service::chat(const Json& messages, const engine::ToolUse* tools, const Json& variables,
                         const Json& schema) const {
  const engine::CallMessages fitted = engine::fit_messages(call_format_, messages, tools ? tools->definitions : Json());
  text::ChatOptions options;
  options.tools = fitted.tools;
  options.extra = variables_;
  options.extra.update(variables);
  text::jinja::TaintedText prompt = engine::render_chat(model(), template_, fitted.messages, std::move(options));
  Generation generation;
  const Json& wanted = schema.is_null() ? engine::answer_schema(sampling_) : schema;
  if (tools || !wanted.is_null())
    generation.calls = call_rules_.get(call_format_, template_, tools ? *tools : engine::ToolUse(), tokenizer(),
                                       prompt.bytes(), wanted);
  generation.prompt = tokens_of(prompt);
  generation.chat_prompt = std::move(prompt);
  generation.sampling = sampling_;
  return generation;
}

std::vector<int32_t> Service::tokens_of(const text::jinja::TaintedText& prompt) const {
  const std::scoped_lock lock(mutex_);
  const engine::KnownText* longest = nullptr;
  for (const engine::KnownText& known : known_)
    if (known.begins(prompt) && (!longest || known.size() > longest->size())) longest = &known;
  return longest ? longest->continued(tokenizer(), prompt) : engine::chat_tokens(tokenizer(), prompt);
}

void Service::remember(const text::jinja::TaintedText& prompt, std::string_view answer,
                       std::span<const int32_t> tokens) {
  engine::KnownText known(tokenizer(), prompt, answer, tokens);
  const std::scoped_lock lock(mutex_);
  known_.push_front(std::move(known));
  // Older ones have hardly anything left in the caches.
  const int64_t most = 4 * model().executor->config().streams;
  if (std::ssize(known_) > (scheduler_.keeps_prefixes() ? std::max(most, kMostKnown) : most)) known_.pop_back();
}

} // namespace ridge::server
