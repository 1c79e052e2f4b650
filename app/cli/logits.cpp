// ridge logits: raw logits of given tokens.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/encoders.h"
#include "app/models/model_names.h"
#include "app/report/npy.h"
#include "app/terminal/terminal.h"
#include "core/encoding/encoder_executor.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "engine/adapters/adapters.h"
#include "engine/loading/fit.h"
#include "engine/loading/loaded_model.h"
#include "engine/options.h"
#include "engine/pictures/open_pictures.h"
#include "engine/pictures/picture_prompt.h"
#include "engine/speculation/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace ridge::app {
namespace {

constexpr int64_t kTokensAtOnce = 64; // 64 × 128 k × 4 bytes = 33 MB

struct LogitsCommand {
  api::ModelOptions model;
  std::string ids, prompt, mmproj, out;
  std::vector<std::string> given;
  bool exact = false, mtp = false;

  core::ExecutorConfig config_for(const core::Program& program, int64_t tokens) const {
    core::ExecutorConfig config = engine::executor_config(model, program.trained_context);
    if (model.context < 0) config.context = tokens;
    if (tokens > config.context)
      throw_error("--ids: {} tokens exceed the context of {}; raise -c", tokens, config.context);
    config.max_batch = config.max_outputs = std::min(config.max_batch, kTokensAtOnce);
    if (core::sees_ahead(program)) config.max_batch = config.max_outputs = tokens; // bidirectional: one batch
    config.exact = exact;
    if (exact) config.k_type = config.v_type = core::KvType::f32;
    return config;
  }

  engine::LoadedModel open() const {
    if (!mtp && !model.draft_model.empty())
      throw Error("--draft-model: needs --mtp and an EAGLE-3 head", Error::kUsage);
    if (!mtp)
      return engine::with_adapters(engine::open_model(engine::open_file(model.model, load_on_terminal()),
                                                      models::Ending::logits, nullptr, engine::AllowWholeTexts::yes),
                                   model.adapters);
    api::ModelOptions drafting = model;
    drafting.speculation = model.draft_model.empty() ? "mtp" : "draft";
    engine::LoadedModel loaded = engine::open_generating(drafting, load_on_terminal());
    if (loaded.heads.empty()) throw_error("--draft-model {}: not a draft head", model.draft_model);
    if (engine::guesses_blocks(loaded.heads[0]))
      throw_error("--draft-model {}: a DFlash head has logits of whole blocks, not of each token", model.draft_model);
    return loaded;
  }

  void run() {
    if (ids.empty() == prompt.empty())
      throw Error("logits: give token ids with --ids, or a text with -p", Error::kUsage);
    if (!given.empty() || (!mmproj.empty() && mmproj != kNoEncoder)) return run_with_pictures();
    if (!prompt.empty()) return run_text();
    run_ids(parse_ids(ids, "--ids"));
  }

  void run_text() const {
    const engine::LoadedModel loaded = open();
    run_ids(loaded.need_tokenizer().encode(prompt, {.add_special = true, .parse_special = true}));
  }

  void run_with_pictures() {
    if (mtp || !ids.empty())
      throw Error("--image and --audio: need a text (-p) and cannot be combined with --mtp", Error::kUsage);
    mmproj = encoder_for_media(mmproj, model.model);
    engine::LoadedModel loaded = engine::with_adapters(
        engine::open_model(model.model, load_on_terminal(), models::Ending::pictures), model.adapters);
    core::check_output(out, {model.model, mmproj});
    engine::PictureReader::Options encoding = engine::encoding_options(model, note);
    encoding.exact = exact;
    engine::PictureReader reader(mmproj, encoding);
    reader.check_fits(loaded.program, model.model);
    std::vector<media::Medium> decoded;
    for (const std::string& path : given) decoded.push_back(media::read_medium(path));
    const engine::PicturePrompt text = engine::picture_prompt(loaded.need_tokenizer(), reader, prompt, decoded);
    const int64_t count = std::ssize(text.tokens);
    core::ExecutorConfig config = config_for(loaded.program, count);
    for (const engine::TextPictures::Place& place : text.pictures.places())
      if (place.tile->sees_ahead) config.max_batch = std::max(config.max_batch, place.tile->tokens);
    engine::start_executor(loaded, config, model.device, engine::placement_of(model), load_on_terminal());
    loaded.executor->set_adapters(0, engine::adapter_uses(loaded.program.adapters, {}, text.tokens));

    int64_t rows = count;
    for (const engine::TextPictures::Place& place : text.pictures.places()) rows -= place.tile->tokens;
    NpyWriter npy(out, {rows, loaded.program.vocab});
    for (int64_t at = 0, end = 0; at < count; at = end) {
      end = text.pictures.end_of_part(at, std::min(count, at + kTokensAtOnce));
      engine::PlacedBatch placed;
      placed.append(std::span(text.tokens).subspan(at, end - at), at, 0, &text.pictures);
      for (int64_t i = at; i < end; ++i)
        if (!text.pictures.at(i)) placed.outputs.push_back(static_cast<int32_t>(i - at));
      loaded.executor->forward(placed.batch(loaded.program, loaded.executor.get()));
      for (int64_t i = 0; i < std::ssize(placed.outputs); ++i) npy.append(loaded.executor->logits(i));
    }
    loaded.file.check();
    npy.finish();
  }

  void run_ids(const std::vector<int32_t>& tokens) const {
    engine::LoadedModel loaded = open();
    std::optional<engine::LoadedHead> head;
    if (mtp) head = std::move(loaded.heads[0]);
    loaded.heads.clear();
    core::check_output(out, {model.model, model.draft_model});
    for (int32_t token : tokens)
      if (token >= loaded.program.vocab)
        throw_error("--ids: token {} is outside the vocabulary (0 to {})", token, loaded.program.vocab - 1);
    const core::ExecutorConfig config = config_for(loaded.program, std::ssize(tokens));
    engine::start_executor(loaded, config, model.device, engine::placement_of(model), load_on_terminal());
    loaded.executor->set_adapters(0, engine::adapter_uses(loaded.program.adapters, {}, tokens));
    if (head) engine::start_executor(*head, config, model.device, engine::placement_of(model), load_on_terminal());

    // Tokens read by an encoder have no logits.
    const int64_t start = loaded.encoder ? core::find_start(loaded.program, tokens) : 0;
    if (start < 0)
      throw_error("--ids: the start token {} is missing after the encoder's text; logits begin there",
                  loaded.program.start_token);
    NpyWriter npy(out, {std::ssize(tokens) - start, loaded.program.vocab});
    std::vector<int32_t> positions(tokens.size()), all(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    std::iota(all.begin(), all.end(), 0);
    std::vector<float> before; // hidden rows before the batch [count, width]
    for (int64_t at = 0; at < std::ssize(tokens); at += config.max_batch) {
      const int64_t count = std::min(config.max_batch, std::ssize(tokens) - at);
      core::Batch batch = {std::span(tokens).subspan(at, count),
                           std::span(positions).subspan(at, count),
                           {},
                           std::span(all).first(head ? 0 : count)};
      const int64_t unread = std::clamp(start - at, int64_t{0}, count);
      if (!head) batch.outputs = batch.outputs.subspan(unread);
      loaded.executor->forward(batch);
      if (head) {
        const std::span<const float> rows = loaded.executor->hidden();
        const size_t width = rows.size() / count;
        before.resize(width); // zeros before the first token
        before.insert(before.end(), rows.begin(), rows.end());
        const int64_t skipped = std::clamp(head->first_token - at, int64_t{0}, count), read = count - skipped;
        for (int64_t i = 0; i < skipped; ++i) npy.append(std::vector<float>(loaded.program.vocab));
        if (read > 0)
          head->executor->forward({batch.tokens.last(read),
                                   std::span(positions).subspan(at + skipped - head->first_token, read),
                                   {},
                                   std::span(all).first(read),
                                   std::span(before).subspan(skipped * width, read * width)});
        for (int64_t i = 0; i < read; ++i) npy.append(head->executor->logits(i));
        before.erase(before.begin(), before.begin() + std::ssize(rows));
      }
      for (int64_t i = 0; !head && i < count - unread; ++i) npy.append(loaded.executor->logits(i));
    }
    loaded.file.check();
    npy.finish();
  }
};

} // namespace

void add_logits_command(CLI::App& app) {
  auto options = std::make_shared<LogitsCommand>();
  CLI::App* command =
      app.add_subcommand("logits", "write the f32 logits for token ids or a text to a file, shape [tokens, vocab]");
  add_model_options(*command, options->model);
  command->add_option("--ids", options->ids, "token ids: 1,2,3");
  command
      ->add_option("-p,--prompt", options->prompt,
                   "a text instead of ids; <__media__> marks the place of an image or audio, which has no logits")
      ->type_name("TEXT");
  add_media_options(*command, options->given, options->mmproj);
  command->add_option("--out", options->out, "NumPy file to write")->type_name("X.npy")->required();
  command->add_flag("--exact", options->exact, "no activation quantization, F32 KV cache");
  command->add_flag(
      "--mtp", options->mtp,
      "compute the logits of the file's draft head: row k from token k and the model's hidden row of token k - 1");
  command
      ->add_option("--draft-model", options->model.draft_model,
                   "with --mtp: use this EAGLE-3 head, which has no logits for the first token (-md)")
      ->type_name(kModelType);
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
