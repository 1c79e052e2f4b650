#include "engine/answer.h"

#include "core/error.h"

#include <algorithm>

namespace ridge::engine {

namespace text = text;

std::string_view name_of(StopReason stop) {
  switch (stop) {
  case StopReason::end_of_turn: return "end_of_turn";
  case StopReason::limit: return "limit";
  case StopReason::context_full: return "context_full";
  case StopReason::stopped: return "stop_string";
  case StopReason::interrupted: return "interrupted";
  }
  return "?";
}

Answerer::Answerer(const LoadedModel& model, Session& session, const SamplingOptions& options)
    : model_(model), session_(session), options_(options), sampler_(options.params, model.program.vocab) {
  const std::string gbnf = options.grammar_text();
  if (gbnf.empty()) return;
  grammar_ = std::make_unique<text::Grammar>(text::Grammar::parse(gbnf));
  const text::Tokenizer& tokenizer = model.need_tokenizer();
  std::vector<std::string> pieces(tokenizer.vocab_size());
  std::vector<int32_t> ends;
  std::vector<text::TokenTable::Special> special;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_eog(id)) ends.push_back(id);
    if (tokenizer.is_special(id)) {
      special.push_back({std::string(tokenizer.token_text(id)), id});
    } else {
      pieces[id] = tokenizer.piece(id);
    }
  }
  token_table_ = std::make_unique<text::TokenTable>(pieces, ends, special);
}

Answerer::~Answerer() = default;

Answer Answerer::answer(std::span<const int32_t> prompt, std::optional<std::string_view> chat_prompt,
                        const TextSink& sink, const std::atomic<bool>* cancel) {
  Answer answer;
  if (!session_.evaluate(prompt, cancel)) {
    answer.stop = StopReason::interrupted;
    return answer;
  }
  sampler_.reset();
  for (const int32_t token : prompt) sampler_.accept(token);

  const text::Tokenizer& tokenizer = model_.need_tokenizer();
  // Markers of reasoning may be control tokens, so a chat renders the text of control tokens; the splitter removes
  // them.
  text::StreamDecoder decoder(tokenizer, {.render_special = chat_prompt.has_value(), .continues = true});
  text::StopMatcher stops(options_.stop);
  text::ReasoningSplitter splitter(chat_prompt.value_or(""));
  const auto emit = [&](text::ReasoningSplitter::Piece piece) {
    if (chat_prompt && answer.content.empty()) // white space before a chat's answer belongs to the template
      piece.answer.erase(0, std::min(piece.answer.size(), piece.answer.find_first_not_of(" \n")));
    answer.reasoning += piece.reasoning;
    answer.content += piece.answer;
    if (!piece.reasoning.empty()) sink(piece.reasoning, true);
    if (!piece.answer.empty()) sink(piece.answer, false);
  };
  const auto take = [&](const std::string& part) {
    answer.raw += part;
    chat_prompt ? emit(splitter.push(part)) : emit({"", part});
  };

  std::unique_ptr<text::GrammarMatcher> matcher;
  if (grammar_) matcher = std::make_unique<text::GrammarMatcher>(*grammar_, *token_table_);
  Session::Options options;
  options.limit = options_.max_tokens;
  options.cancel = cancel;
  options.mask = matcher.get();
  if (!options_.ignore_eos || matcher) options.is_end = [&](int32_t token) { return tokenizer.is_eog(token); };
  if (matcher) options.on_accept = [&](int32_t token) { matcher->accept(token); };
  if (keep_choices_)
    options.on_choice = [&](int32_t token, std::span<const float> logits) {
      answer.choices.push_back(core::describe_choice(logits, token));
      answer.choices.back().end = static_cast<uint32_t>(answer.content.size()); // of a token without text
    };
  options.on_token = [&](int32_t token) {
    model_.file.check(); // throws where the file was truncated: the token would be wrong
    take(stops.push(decoder.push(token)));
    if (keep_choices_) answer.choices.back().end = static_cast<uint32_t>(answer.content.size());
    return !stops.stopped();
  };
  answer.stop = session_.generate(sampler_, options);
  answer.tokens = std::ssize(session_.tokens()) - std::ssize(prompt);
  if (!stops.stopped()) {
    take(stops.push(decoder.finish()));
    take(stops.finish());
  }
  if (chat_prompt) emit(splitter.finish());
  return answer;
}

} // namespace ridge::engine
