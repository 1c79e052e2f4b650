// ridge embed: text embeddings as JSON lines or NumPy.
#include "app/cli/cli.h"
#include "app/cli/options.h"
#include "app/models/encoders.h"
#include "app/report/npy.h"
#include "app/terminal/streams.h"
#include "app/terminal/terminal.h"
#include "core/error.h"
#include "core/files/read_file.h"
#include "engine/adapters/adapters.h"
#include "engine/embedder.h"
#include "engine/pictures/open_pictures.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace ridge::app {
namespace {

struct EmbedCommand {
  api::ModelOptions model;
  std::vector<std::string> texts;
  std::string file, ids, out, pooling, mmproj;
  std::vector<std::string> given;
  bool exact = false, no_normalize = false, truncate = false;

  void run() {
    if (!given.empty() || (!mmproj.empty() && mmproj != kNoEncoder)) return run_pictures();
    if (model.model.empty()) throw Error("embed: no model; give -m FILE", Error::kUsage);
    if (!pooling.empty()) engine::pooling_of_name(pooling);
    std::vector<std::vector<int32_t>> inputs;
    if (!ids.empty()) inputs.push_back(parse_ids(ids, "--ids"));
    const std::vector<std::string> given = ids.empty() ? read_texts() : std::vector<std::string>();
    if (!out.empty()) core::check_output(out, {model.model, file});
    engine::Embedder embedder(
        engine::with_adapters(engine::open_model(model.model, load_on_terminal(), models::Ending::hidden),
                              model.adapters),
        model, {pooling, exact, ids.empty() ? 0 : std::ssize(inputs[0])}, load_on_terminal());
    for (const std::string& text : given) inputs.push_back(embedder.tokens_of(text, truncate));
    if (out.empty()) return print(embedder, inputs);

    const bool each_token = embedder.pooling() == engine::Pooling::none;
    if (each_token && inputs.size() != 1)
      throw Error("--out: with --pooling none, a file holds the vectors of one text only", Error::kUsage);
    NpyWriter npy(out, {each_token ? std::ssize(inputs[0]) : std::ssize(inputs), embedder.width()});
    for (const std::vector<int32_t>& tokens : inputs) npy.append(embedder.embed(tokens, !no_normalize));
    npy.finish();
  }

 private:
  std::vector<std::string> read_texts() const {
    std::vector<std::string> given = texts;
    if (!file.empty() || texts.empty()) given = lines_of(core::read_text_file(file.empty() ? "-" : file));
    if (given.empty()) throw Error("embed: no text; give TEXT, --file FILE or lines on standard input", Error::kUsage);
    return given;
  }

  // The embedding rows that replace tokens.
  void run_pictures() {
    if (!texts.empty() || !file.empty() || !ids.empty() || (!pooling.empty() && pooling != "none"))
      throw Error("--image and --audio: cannot be combined with texts; need --pooling none", Error::kUsage);
    if (given.empty()) throw Error("--mmproj: needs --image or --audio", Error::kUsage);
    mmproj = encoder_for_media(mmproj, model.model);
    if (!out.empty()) core::check_output(out, {model.model, mmproj});
    engine::PictureReader::Options encoding = engine::encoding_options(model, note);
    encoding.exact = exact;
    engine::PictureReader reader(mmproj, encoding);
    if (!model.model.empty())
      reader.check_fits(engine::open_model(model.model, load_on_terminal(), models::Ending::pictures).program,
                        model.model);
    std::vector<engine::PictureReader::Piece> pieces;
    for (const std::string& path : given)
      for (engine::PictureReader::Piece& piece : reader.read(media::read_medium(path)))
        pieces.push_back(std::move(piece));
    if (out.empty()) return print(pieces);
    int64_t tokens = 0;
    for (const engine::PictureReader::Piece& piece : pieces)
      if (piece.tile) tokens += piece.tile->tokens;
    NpyWriter npy(out, {tokens, reader.row_width()});
    for (const engine::PictureReader::Piece& piece : pieces)
      if (piece.tile) npy.append(piece.tile->all_rows());
    npy.finish();
  }

  static void print(const std::vector<engine::PictureReader::Piece>& pieces) {
    for (const engine::PictureReader::Piece& piece : pieces) {
      nlohmann::ordered_json line;
      if (piece.tile) {
        line = {{"tokens", piece.tile->tokens}, {"columns", piece.tile->columns}, {"lines", piece.tile->lines}};
        auto& rows = line["embedding"] = nlohmann::ordered_json::array();
        const std::span<const float> all = piece.tile->all_rows();
        for (auto at = all.begin(); at != all.end(); at += piece.tile->width)
          rows.push_back(std::vector<float>(at, at + piece.tile->width));
      } else {
        line["text"] = piece.text;
      }
      fmt::print("{}\n", line.dump());
    }
    flush_stdout();
  }

  void print(engine::Embedder& embedder, const std::vector<std::vector<int32_t>>& inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<float> vector = embedder.embed(inputs[i], !no_normalize);
      nlohmann::ordered_json line = {{"index", i}, {"tokens", inputs[i].size()}};
      if (embedder.pooling() == engine::Pooling::none) {
        auto& rows = line["embedding"] = nlohmann::ordered_json::array();
        for (auto at = vector.begin(); at != vector.end(); at += embedder.width())
          rows.push_back(std::vector<float>(at, at + embedder.width()));
      } else {
        line["embedding"] = vector;
      }
      fmt::print("{}\n", line.dump());
      flush_stdout();
    }
  }
};

} // namespace

void add_embed_command(CLI::App& app) {
  auto options = std::make_shared<EmbedCommand>();
  CLI::App* command =
      app.add_subcommand("embed", "compute embedding vectors of texts: one line of JSON each, or a NumPy file");
  add_model_options(*command, options->model);
  CLI::Option* texts =
      command->add_option("text", options->texts, "the texts (default: each line of standard input is one)")
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_name("TEXT");
  CLI::Option* file =
      command->add_option("--file", options->file, "each line of this file is a text (-: standard input)")
          ->type_name("FILE");
  CLI::Option* ids = command->add_option("--ids", options->ids, "token ids instead of texts: 1,2,3");
  ids->excludes(texts)->excludes(file);
  file->excludes(texts);
  add_media_options(*command, options->given, options->mmproj);
  command
      ->add_option("--out", options->out,
                   "write a NumPy file, shape [texts, width]; with --pooling none: [tokens, width]")
      ->type_name("X.npy");
  command
      ->add_option("--pooling", options->pooling,
                   "how to pool token vectors: mean, cls (first token), last, or none (one vector per token)")
      ->type_name("KIND");
  command->add_flag("--no-normalize", options->no_normalize, "do not normalize vectors to length 1");
  command->add_flag("--truncate", options->truncate, "truncate texts that do not fit the context");
  command->add_flag("--exact", options->exact, "no activation quantization, F32 KV cache");
  command->callback([options] { options->run(); });
}

} // namespace ridge::app
