// LoRA adapters in the window's engine: files belong to the open model, scales to the conversation.
#include "app/window/loaded.h"
#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ridge::app {
namespace {

constexpr float kMaxScale = 1000;

const api::AdapterRow* row_of(const std::vector<api::AdapterRow>& rows, const std::string& path) {
  const auto found = std::ranges::find(rows, path, &api::AdapterRow::path);
  return found == rows.end() ? nullptr : &*found;
}

} // namespace

void WindowEngine::add_adapter(const std::string& path) {
  std::vector<api::AdapterOption> wanted = adapters_[path_];
  if (std::ranges::count(wanted, path, &api::AdapterOption::file) > 0) throw_error("{} is added already", path);
  wanted.push_back({path});
  open_with_adapters(std::move(wanted));
}

void WindowEngine::remove_adapter(size_t number) {
  std::vector<api::AdapterOption> wanted = adapters_[path_];
  if (number >= wanted.size()) return;
  wanted.erase(wanted.begin() + static_cast<long>(number));
  open_with_adapters(std::move(wanted));
}

void WindowEngine::open_with_adapters(std::vector<api::AdapterOption> wanted) {
  std::swap(adapters_[path_], wanted);
  try {
    reopen();
  } catch (...) {
    adapters_[path_] = std::move(wanted);
    throw;
  }
}

// The rows of `loaded`; what the conversation uses already keeps its scale. The caller holds the lock.
std::vector<api::AdapterRow> WindowEngine::rows_of_adapters(const Loaded& loaded) const {
  std::vector<api::AdapterRow> rows;
  for (const core::Adapter& adapter : loaded.model.program.adapters) {
    const api::AdapterRow* row = row_of(state().adapters, adapter.file);
    const bool on = adapter.scale != 0;
    rows.push_back({adapter.name, adapter.file, row ? row->scale : on ? adapter.scale : 1, row ? row->on : on});
  }
  return rows;
}

void WindowEngine::scale_adapter(const api::intent::ScaleAdapter& wanted) {
  if (wanted.number >= state().adapters.size()) return;
  if (!(std::abs(wanted.scale) <= kMaxScale))
    throw_error("the scale of an adapter can be -{} to {}", kMaxScale, kMaxScale);
  change([&](api::Snapshot& s) {
    s.adapters[wanted.number].scale = wanted.scale;
    s.adapters[wanted.number].on = wanted.on;
  });
  if (StoredConversation* stored = store_.find(state().conversation)) give_adapters(*stored);
}

const api::GenerateRequest& WindowEngine::request_with_adapters() {
  setup_.request.keep_choices = state().keep_choices;
  std::vector<float>& scales = setup_.request.sampling.adapter_scales;
  scales.clear();
  for (const api::AdapterRow& row : state().adapters) scales.push_back(row.on ? row.scale : 0);
  return setup_.request;
}

void WindowEngine::use_adapters_of(const StoredConversation& stored) {
  if (!stored.adapters) return;
  const std::vector<api::AdapterRow>& wanted = *stored.adapters;
  change([&](api::Snapshot& s) {
    for (api::AdapterRow& row : s.adapters) {
      const api::AdapterRow* kept = row_of(wanted, row.path);
      row.on = kept && kept->on;
      if (kept) row.scale = kept->scale;
    }
  });
  for (const api::AdapterRow& row : wanted)
    if (row.on && !row_of(state().adapters, row.path))
      tell(fmt::format("this conversation used the LoRA adapter {}, which is not open: add it in the settings",
                       row.path));
}

// Adapters of other models stay with the conversation.
void WindowEngine::give_adapters(StoredConversation& stored) const {
  std::vector<api::AdapterRow> rows = state().adapters;
  for (const api::AdapterRow& old : stored.adapters.value_or(std::vector<api::AdapterRow>()))
    if (!row_of(rows, old.path)) rows.push_back(old);
  stored.adapters = std::move(rows);
}

} // namespace ridge::app
