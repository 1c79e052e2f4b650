// ridge pull and ridge rm.
#include "hub/pull.h"
#include "app/cli/choose_model.h"
#include "app/cli/cli.h"
#include "app/models/model_names.h"
#include "app/terminal/terminal.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "core/units.h"
#include "hub/hub_cache.h"
#include "hub/names.h"
#include "hub/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ridge::app {

std::string pull_model(const hub::Reference& reference, const std::string& mmproj) {
  const InterruptFlag interrupt;
  Progress bar;
  hub::Speed speed;
  hub::PullOptions options = hub::pull_options();
  options.policy.cancel = interrupt.flag();
  options.projector = mmproj;
  options.progress = [&](const std::string& what, int64_t done, int64_t total) {
    bar.update(what, done, total, "  " + speed.text(core::seconds_now(), done, total));
  };
  options.note = [&](const std::string& line) {
    bar.clear();
    note(line);
  };
  return hub::pull(reference, options).path;
}

namespace {

void pull(const std::vector<std::string>& wanted, const std::string& mmproj) {
  std::vector<hub::Reference> references;
  for (const std::string& text : wanted) {
    references.push_back(hub::parse_reference(text).value_or(hub::Reference{}));
    if (!references.back().repository.empty() || !references.back().url.empty()) continue;
    if (text.find('/') == std::string::npos)
      throw Error(
          fmt::format("{0}: expected OWNER/REPO; `ridge search {0}` searches for it", core::printable(text, 100)),
          Error::kUsage);
    references.back() = *hub::parse_reference("hf:" + text); // throws, or takes OWNER/REPO
  }
  for (const hub::Reference& reference : references) fmt::print("{}\n", pull_model(reference, mmproj));
}

const hub::LocalModel* pulled_model(std::span<const hub::LocalModel> models, const hub::Reference& reference) {
  if (reference.url.empty()) return hub::find_pulled(models, reference);
  const std::string path = hub::place_of_address(reference.url, hub::download_folder());
  const auto found = std::ranges::find(models, path, &hub::LocalModel::path);
  return found == models.end() ? nullptr : &*found;
}

void remove(const std::vector<std::string>& wanted) {
  for (const std::string& text : wanted) {
    const std::vector<hub::LocalModel> models = hub::local_models(hub::places(), true);
    const auto reference = hub::parse_reference(text);
    const hub::LocalModel* model = reference ? pulled_model(models, *reference) : hub::find_model(models, text);
    if (!model && reference) { // may be a partial download
      if (const int64_t freed = hub::remove_stopped_pull(*reference); freed > 0) {
        fmt::print("{}: removed the partial download, freed {}\n", text, core::human_bytes(static_cast<double>(freed)));
        continue;
      }
    }
    if (!model) throw_error("{}: no such model here (see ridge models)", core::printable(text, 300));
    if (!reference && core::lower(text) != core::lower(model->name) &&
        !core::lower(text).ends_with(core::lower("/" + model->name)))
      throw Error(fmt::format("{}: to remove {}, give its full name", core::printable(text, 300), model->name),
                  Error::kUsage);
    const std::string path = model->path;
    const int64_t freed = hub::remove_model(*model);
    fmt::print("{}: removed, freed {}\n", path, core::human_bytes(static_cast<double>(freed)));
  }
}

} // namespace

void add_pull_commands(CLI::App& app, std::vector<std::string>& next) {
  const auto wanted = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("pull", "download a model from Hugging Face, or a GGUF file from anywhere");
  command
      ->add_option("model", *wanted,
                   "hf:OWNER/REPO, hf:OWNER/REPO:Q8_0, hf:OWNER/REPO/FILE.gguf or https://HOST/FILE.gguf (default: "
                   "suggest models that fit this machine)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
  const auto mmproj = std::make_shared<std::string>();
  command
      ->add_option("--mmproj", *mmproj,
                   "image or audio encoder to download with the model: a type such as Q8_0, a file name, or none "
                   "(default: F16, BF16 or Q8_0, the first available)")
      ->type_name("WHICH");
  command->footer("Downloads the file of the given type from a repository, by default Q4_K_M or the closest one, to "
                  "the\nfolder of Hugging Face's own tools (HF_HOME, HF_HUB_CACHE), and checks its SHA-256. To resume "
                  "an\ninterrupted download, run the command again. Uses HF_TOKEN, HF_ENDPOINT and https_proxy.");
  command->callback([wanted, mmproj, &next] {
    if (wanted->empty())
      next = choose_first_model(false);
    else
      pull(*wanted, *mmproj);
  });

  command = app.add_subcommand("rm", "remove models that ridge downloaded, with their image and audio encoders");
  command->add_option("model", *wanted, "a name from `ridge models`, hf:OWNER/REPO:TYPE or https://HOST/FILE.gguf")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name(kLocalModelType)
      ->required();
  command->callback([wanted] { remove(*wanted); });
}

} // namespace ridge::app
