// ridge run: one answer to stdout.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/report/report.h"
#include "app/terminal/canvas_view.h"
#include "app/terminal/pictures.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "engine/chat/conversation.h"
#include "engine/loading/machine.h"
#include "engine/options.h"
#include "engine/sampling_defaults.h"
#include "engine/speculation/speculation.h"
#include "measure/profile_report.h"
#include "media/medium.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace ridge::app {
namespace {

struct RunCommand {
  api::ModelOptions model;
  api::GenerateRequest request;
  TextOptions prompt;
  bool json = false, profile = false, verbose = false, no_markdown = false;

  void run() {
    if (request.raw && !request.system.empty())
      throw Error("run: --raw cannot be combined with a system prompt", Error::kUsage);
    core::validate(request.sampling.params);
    engine::check_speculation(model);
    request.prompt = prompt.read_with_piped();
    if (request.prompt.empty())
      throw Error("run: no text; write it in quotes after the model, or give -p TEXT, -f FILE or standard input; for "
                  "conversations use `ridge chat`",
                  Error::kUsage);
    if (request.raw && !request.media.empty())
      throw Error("run: --raw cannot be combined with images or audio", Error::kUsage);
    take_pictures(model, request.media);
    engine::LoadedModel loaded = engine::open_generating(model, load_on_terminal());
    engine::take_model_defaults(request.sampling, loaded.file, note);
    const auto& tokenizer = loaded.need_tokenizer();
    for (const std::string& warning : tokenizer.warnings()) note(warning);

    const std::vector<int32_t> raw_tokens = tokenizer.encode(request.prompt, {.add_special = true});
    core::ExecutorConfig config = engine::generating_config(model, loaded.program);
    if (model.context < 0 && request.sampling.max_tokens > 0)
      config.context = context_for(std::ssize(raw_tokens), config.context, loaded.program.trained_context);
    if (core::sees_ahead(loaded.program)) { // bidirectional: one batch
      if (profile) throw Error("run: --profile does not support diffusion models", Error::kUsage);
      config.max_batch = config.context;
    }
    engine::start_executor(loaded, config, model.device, engine::placement_of(model), load_on_terminal());
    engine::Session session(*loaded.executor, loaded.program,
                            engine::make_speculator(model, loaded, load_on_terminal()));
    engine::Answerer answerer(loaded, session, request);
    const InterruptFlag interrupt;
    TextPrinter printer(!request.raw && !no_markdown);
    std::optional<CanvasView> view;
    if (!json) view.emplace(loaded, answerer);
    const engine::TextSink sink = [&](std::string_view part, bool reasoning) {
      if (view && view->on()) return view->keep(part, reasoning);
      if (!json) printer.print(part, reasoning);
    };
    if (request.raw) note_limit(std::ssize(raw_tokens), session.context());
    const engine::Answer answer = request.raw ? answerer.answer({.prompt = raw_tokens}, sink, interrupt.flag())
                                              : chat(loaded, session, answerer, sink, interrupt.flag());
    if (view) view->print_kept([&](std::string_view part, bool reasoning) { printer.print(part, reasoning); });
    std::optional<measure::StepProfile> step;
    if (profile) { // evaluates the last token again
      const int64_t position = std::ssize(session.tokens()) - 1;
      step = measure::profile_step(*loaded.executor, loaded.program, {session.tokens().last(1), position},
                                   engine::measure_read_bandwidth(loaded));
    }
    if (json) {
      print_json(answer, session, answerer, *loaded.executor, step);
    } else {
      if (stdout_is_terminal()) printer.finish();
      if (step) write_stderr(fmt::format("\n{}", measure::profile_table(*step)));
      if (step && verbose && !step->plan.empty()) write_stderr(fmt::format("\n{}", step->plan));
    }
    for (const std::string& miss : answer.schema_misses) note(miss);
    if (answer.stop == engine::StopReason::context_full)
      note(fmt::format("the context of {} tokens is full: the answer was cut off (raise -c)", session.context()));
    if (answer.stop == engine::StopReason::interrupted) throw Error("interrupted", kInterrupted);
  }

  // -n is only a limit, so a chat gets at most the trained context. A raw completion may exceed it, with a notice.
  int64_t context_for(int64_t prompt, int64_t usual, int64_t trained) const {
    const int64_t most = request.raw ? kLongestContext : std::max(usual, trained);
    const int64_t answer = std::min(request.sampling.max_tokens, kLongestContext);
    const int64_t context = std::clamp(prompt + answer + (request.raw ? 0 : kTemplateRoom), usual, most);
    if (request.raw && context > trained)
      note(fmt::format("exceeding the {} tokens that the model was trained for", trained));
    return context;
  }

  // The last token takes no room.
  void note_limit(int64_t prompt, int64_t context) const {
    if (const int64_t room = context - prompt + 1; room > 0 && room < request.sampling.max_tokens)
      note(fmt::format("-n {}: the context of {} tokens has room for {} after the prompt (raise -c)",
                       request.sampling.max_tokens, context, room));
  }

  engine::Answer chat(const engine::LoadedModel& loaded, engine::Session& session, engine::Answerer& answerer,
                      const engine::TextSink& sink, const std::atomic<bool>* cancel) const {
    const text::ChatTemplate chosen = engine::choose_template(request.chat_template, loaded.file, note);
    engine::Conversation conversation(loaded, session, chosen,
                                      engine::template_variables(request.chat_template, chosen, note));
    conversation.set_system(request.system);
    std::string message;
    for (const std::string& file : request.media)
      message += add_picture(loaded, conversation, media::read_medium_file(file), file);
    message += request.prompt;
    if (request.sampling.max_tokens > 0) note_limit(conversation.tokens_with(message), session.context());
    conversation.add_user(std::move(message));
    return conversation.answer(answerer, sink, cancel);
  }

  static void print_json(const engine::Answer& answer, const engine::Session& session, const engine::Answerer& answerer,
                         core::Executor& executor, const std::optional<measure::StepProfile>& step) {
    const engine::Usage &prompt = session.prompt_usage(), &generation = session.generation_usage();
    engine::Json report = {{"content", answer.content},
                           {"reasoning_content", answer.reasoning},
                           {"stop", engine::name_of(answer.stop)},
                           {"seed", answerer.seed()},
                           {"usage",
                            {{"prompt_tokens", prompt.tokens},
                             {"completion_tokens", answer.tokens},
                             {"prompt_seconds", prompt.seconds},
                             {"completion_seconds", generation.seconds},
                             {"prompt_tokens_per_second", prompt.tokens_per_second()},
                             {"completion_tokens_per_second", generation.tokens_per_second()},
                             {"completion_bytes_per_second", generation.bytes_per_second()}}}};
    if (const core::ExpertUse use = executor.expert_use(); use.hits + use.misses > 0)
      report["experts"] = {{"on_host", use.on_host},
                           {"copies_on_gpu", use.copies},
                           {"found", use.hits},
                           {"missed", use.misses},
                           {"read_from_file", use.file_reads}};
    if (answer.steps > 0)
      report["diffusion"] = {{"steps", answer.steps},
                             {"bytes_per_step", generation.bytes / static_cast<double>(answer.steps)}};
    if (session.guesses().steps > 0) report["speculation"] = speculation_json(session.guesses());
    if (step) report["profile"] = measure::profile_json(*step);
    print_report("run", report);
  }

  static engine::Json speculation_json(const engine::GuessCounts& counts) {
    return {{"steps_with_guesses", counts.steps},
            {"guessed_tokens", counts.all_made()},
            {"right_tokens", counts.all_right()},
            {"guessed_tokens_by_place", counts.made},
            {"right_tokens_by_place", counts.right}};
  }

  static constexpr int64_t kTemplateRoom = 1024;
  static constexpr int64_t kLongestContext = INT32_MAX;
  static constexpr int kInterrupted = 130; // a shell's status after Ctrl-C
};

} // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunCommand>();
  CLI::App* command = app.add_subcommand("run", "print one answer to stdout");
  add_model_options(*command, options->model, true, false);
  add_speculation_options(*command, options->model);
  add_batch_invariant_option(*command, options->model.batch_invariant);
  add_media_options(*command, options->request.media, options->model.mmproj);
  options->prompt.add_to(*command, "your message; piped input is appended to it");
  options->prompt.add_words(*command);
  command->add_option("--system-prompt", options->request.system, "system prompt (-sys)")->type_name("TEXT");
  command->add_flag("--raw", options->request.raw, "complete the text without a chat template");
  command->add_flag("--no-markdown", options->no_markdown, kNoMarkdownHelp);
  command->add_flag("--json", options->json, "print answer, reasoning and usage as JSON");
  command->add_flag("--profile", options->profile, "afterwards, show where the time of one step goes, op by op");
  command->add_flag("-v,--verbose", options->verbose, "with --profile: also list the step's kernels (GPU)");
  add_template_options(*command, options->request.chat_template);
  add_sampling_options(*command, options->request.sampling);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
