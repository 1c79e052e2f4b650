#include "core/encoding/encoder_executor.h"
#include "engine/chat/chat_request.h"
#include "engine/options.h"
#include "engine/sequences/constraint.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ridge::engine {
namespace {

std::string_view opened_prompt(const Generation& generation) {
  const std::string_view prompt = generation.chat_prompt->bytes();
  return prompt.substr(0, prompt.size() - generation.begun);
}

std::string_view begun_answer(const Generation& generation) {
  const std::string_view prompt = generation.chat_prompt->bytes();
  return prompt.substr(prompt.size() - generation.begun);
}

// False if the answer's limit comes first: some clients send a budget that large, and tokens are chosen faster without
// one.
bool limits_reasoning(const Generation& generation, const LoadedModel& model) {
  const int64_t budget = generation.sampling.reasoning_budget, limit = generation.sampling.max_tokens;
  if (!generation.chat_prompt || budget < 0) return false;
  const int64_t room = model.executor->config().context - std::ssize(generation.prompt);
  return budget + 1 < (limit < 0 ? room : std::min(room, limit));
}

} // namespace

std::shared_ptr<const text::TokenTable> SequenceRequests::token_table() const {
  const std::scoped_lock lock(mutex_);
  if (!token_table_) token_table_ = text::make_token_table(model_.need_tokenizer());
  return token_table_;
}

std::unique_ptr<Constraint> SequenceRequests::constraint_of(const Generation& generation) const {
  const api::SamplingOptions& sampling = generation.sampling;
  const bool has_grammar =
      !sampling.grammar_file.empty() || (sampling.json_schema.empty() && !sampling.grammar.empty());
  if (generation.calls && !has_grammar) {
    auto constraint = std::make_unique<CallConstraint>(generation.calls, token_table(), model_.need_tokenizer(),
                                                       opened_prompt(generation));
    if (generation.begun > 0) constraint->begin_with(begun_answer(generation));
    return constraint;
  }
  if (sampling.json_schema.empty() || has_grammar) {
    const std::string gbnf = grammar_text(sampling);
    return gbnf.empty() ? nullptr
                        : std::make_unique<GrammarConstraint>(*grammar(gbnf), token_table(), model_.need_tokenizer());
  }
  const auto of_schema =
      grammars_.get("schema\n" + sampling.json_schema, [&] { return text::Grammar::parse(grammar_text(sampling)); });
  return std::make_unique<GrammarConstraint>(*of_schema, token_table(), model_.need_tokenizer());
}

std::shared_ptr<const text::SharedGrammar> SequenceRequests::grammar(const std::string& gbnf) const {
  return grammars_.get("gbnf\n" + gbnf, [&] { return text::Grammar::parse(gbnf); });
}

SequenceRequest SequenceRequests::sequence(const Generation& generation) const {
  SequenceRequest request;
  request.prompt = generation.prompt;
  if (model_.program.start_token >= 0) end_text(request.prompt);
  request.pictures = generation.pictures;
  request.sampling = generation.sampling.params;
  request.texts = &texts_;
  request.limit = generation.sampling.max_tokens;
  request.keep_choices = generation.keep_choices;
  request.choices_after_samplers = generation.keep_choices && generation.choices_after_samplers;
  request.keep_prompt_choices = generation.keep_prompt_choices;
  request.reuse = generation.reuse;
  request.adapter_scales = generation.sampling.adapter_scales;
  request.priority = generation.priority;
  request.stream = generation.stream;
  request.constraint = constraint_of(generation);
  if (core::sees_ahead(model_.program))
    request.diffusion = diffusion_of(model_.file, generation.sampling.params.diffusion);
  const bool held = request.constraint != nullptr;
  if (limits_reasoning(generation, model_)) {
    auto budget = std::make_unique<ReasoningBudget>(
        model_.need_tokenizer(), opened_prompt(generation), generation.sampling.reasoning_budget,
        generation.sampling.reasoning_message, std::move(request.constraint));
    if (generation.begun > 0) budget->begin_with(begun_answer(generation));
    request.constraint = std::move(budget);
  }
  std::vector<int32_t> stops = generation.stop_tokens;
  std::ranges::sort(stops);
  const bool ends = !generation.sampling.ignore_eos || held;
  if (generation.min_tokens > 0)
    request.constraint = std::make_unique<MinimumConstraint>(generation.min_tokens, end_tokens(ends, stops),
                                                             std::move(request.constraint));
  request.is_end = [this, ends, stops = std::move(stops)](int32_t token) {
    model_.file.check(); // throws for a truncated file, whose tokens would be wrong
    return (ends && model_.need_tokenizer().is_eog(token)) || std::ranges::binary_search(stops, token);
  };
  return request;
}

// An encoder's text ends here; the start token begins the decoder's text.
void SequenceRequests::end_text(std::vector<int32_t>& prompt) const {
  if (core::find_start(model_.program, prompt) >= 0) return;
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  if (tokenizer.add_eos() && (prompt.empty() || prompt.back() != tokenizer.eos())) prompt.push_back(tokenizer.eos());
  prompt.push_back(model_.program.start_token);
}

std::vector<int32_t> SequenceRequests::end_tokens(bool model_ends, const std::vector<int32_t>& sorted_stops) const {
  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  const int64_t vocab = std::min<int64_t>(tokenizer.vocab_size(), model_.program.vocab);
  std::vector<int32_t> ends;
  for (int32_t token = 0; token < vocab; ++token)
    if ((model_ends && tokenizer.is_eog(token)) || std::ranges::binary_search(sorted_stops, token))
      ends.push_back(token);
  return ends;
}

AnswerText SequenceRequests::text_of(const Generation& generation) const {
  std::optional<std::string_view> prompt;
  if (generation.chat_prompt) prompt = opened_prompt(generation);
  AnswerText text(model_.need_tokenizer(), generation.sampling.stop, prompt, generation.calls);
  if (const auto schema = generation.calls ? nlohmann::ordered_json() : answer_schema(generation.sampling);
      !schema.is_null())
    text.check_content(schema);
  if (generation.begun > 0) text.begin_with(begun_answer(generation));
  return text;
}

} // namespace ridge::engine
