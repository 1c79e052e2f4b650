// Time to compile the grammars of JSON schemas, and to make the mask of each step while following given outputs.
//   ridge_grammar_bench VOCABULARY.gguf SCHEMAS.jsonl
// A line of SCHEMAS.jsonl: {"schema": {…}, "outputs": ["JSON text", …]}. Each grammar is followed twice: the first time
// nothing is known of its states.
#include "core/error.h"
#include "core/files/read_file.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/json_schema/json_schema.h"
#include "text/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <sstream>

using namespace ridge;
using Json = nlohmann::ordered_json;

namespace {

// CPU time of this thread: other programs do not count.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Times {
 public:
  template <class Run>
  void measure(Run run) {
    const double start = seconds();
    run();
    us_.push_back((seconds() - start) * 1e6);
  }
  void print(const char* what) {
    if (us_.empty()) return;
    std::ranges::sort(us_);
    const auto at = [&](double share) { return us_[static_cast<size_t>(share * static_cast<double>(us_.size() - 1))]; };
    double sum = 0;
    for (const double us : us_) sum += us;
    fmt::print(
        "{:<22} {:>8}  mean {:>8.1f}  p50 {:>8.1f}  p90 {:>8.1f}  p99 {:>8.1f}  p99.9 {:>8.1f}  max {:>9.1f} µs\n",
        what, us_.size(), sum / static_cast<double>(us_.size()), at(0.5), at(0.9), at(0.99), at(0.999), at(1));
  }

 private:
  std::vector<double> us_;
};

} // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const gguf::File file = gguf::File::open(argv[1]);
  const auto tokenizer = text::Tokenizer::from_file(file);
  Times table_time, compile, first, again, apply;
  std::shared_ptr<const text::TokenTable> table;
  table_time.measure([&] { table = text::make_token_table(*tokenizer); });
  std::vector<float> logits(static_cast<size_t>(table->size()));
  size_t refused = 0, outputs = 0;
  std::istringstream lines(core::read_text_file(argv[2]));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    std::unique_ptr<text::Grammar> grammar;
    std::unique_ptr<text::GrammarMatcher> matcher;
    compile.measure([&] {
      const std::string gbnf = text::gbnf_from_json_schema(text::clean_schema(row["schema"]));
      grammar = std::make_unique<text::Grammar>(text::Grammar::parse(gbnf));
      matcher = std::make_unique<text::GrammarMatcher>(*grammar, *table);
    });
    for (const Json& output : row["outputs"]) {
      ++outputs;
      const std::vector<int32_t> tokens = tokenizer->encode(output.get<std::string>());
      for (Times* times : {&first, &again}) {
        matcher->reset();
        for (const int32_t token : tokens) {
          times->measure([&] { matcher->mask(); });
          apply.measure([&] { matcher->apply(logits); });
          if (!matcher->allows(token)) {
            if (times == &first) ++refused;
            break;
          }
          matcher->accept(token);
        }
      }
    }
  }
  fmt::print("{} tokens, {} outputs, {} leave their grammar\n", table->size(), outputs, refused);
  table_time.print("vocabulary");
  compile.print("compile");
  first.print("mask, first time");
  again.print("mask, again");
  apply.print("apply to logits");
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
