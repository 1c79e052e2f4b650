#include "ui/panels/chat/first_models.h"

#include "core/units.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

constexpr float kOfferHeight = 50, kOfferButton = 92; // units

// Newest download job; null: none.
const api::Job* job_of(const api::Snapshot& now, const std::string& reference) {
  const auto job = std::ranges::find_if(*now.jobs, [&](const api::Job& each) {
    const auto* pull = std::get_if<api::PullRequest>(&each.request);
    return pull && pull->model == reference;
  });
  return job == now.jobs->end() ? nullptr : &*job;
}

// "45 %, 3 min left"
std::string progress_text(const api::Job& job) {
  if (job.state == api::JobState::waiting) return "waiting for the previous job";
  const std::string left = job.remaining_s >= 0 ? fmt::format(", {} left", core::human_seconds(job.remaining_s)) : "";
  return fmt::format("{:.0f} %{}", 100 * job.share, left);
}

} // namespace

bool FirstModels::has_any(const View& view) {
  return view.now.model->built_in && view.now.first_models && !view.now.first_models->empty();
}

void FirstModels::draw(const View& view, float width) {
  if (!has_any(view)) return;
  if (const api::Job* job = wanted_.empty() ? nullptr : job_of(view.now, wanted_); job && job->over()) {
    if (job->state == api::JobState::done) view.send(intent::OpenModel{job->opens});
    wanted_.clear();
  }
  ImGui::Dummy({0, px(18)});
  text("Models that fit this machine", theme().text, fonts().body);
  dim_text("Click one to download it from Hugging Face and open it.");
  ImGui::Dummy({0, px(6)});
  for (const api::FirstModelRow& row : *view.now.first_models) draw_row(view, row, width);
}

void FirstModels::draw_row(const View& view, const api::FirstModelRow& row, float width) {
  const Theme& t = theme();
  const api::Job* job = job_of(view.now, row.reference);
  const bool going = job && !job->over(), here = job && job->state == api::JobState::done;
  const ImVec2 before = ImGui::GetCursorPos(), at = ImGui::GetCursorScreenPos();
  const float height = px(kOfferHeight), button = px(kOfferButton), room = width - button - px(36);
  ImGui::PushID(row.reference.c_str());
  ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + width, at.y + height - px(6)}, t.surface, px(8));
  const std::string size = fmt::format("{} · {}", core::human_bytes(static_cast<double>(row.bytes)), row.runs_on);
  text_at({at.x + px(12), at.y + px(3)}, row.name, t.text, fonts().body);
  const float name = size_of(row.name, fonts().body).x + px(24);
  text_at({at.x + name, at.y + px(6)},
          row.best
              ? fitting({size + " · recommended", size + " · recommended", size}, room + px(12) - name, fonts().small)
              : size,
          row.best ? t.accent : t.dim, fonts().small);
  const bool failed = job && job->state == api::JobState::failed;
  text_at({at.x + px(12), at.y + px(23)},
          shortened(going    ? progress_text(*job)
                    : failed ? job->error
                             : row.purpose,
                    room, fonts().small),
          failed ? t.red : t.dim, fonts().small);
  if (going) {
    const ImVec2 from = {at.x + px(150), at.y + px(30)}, to = {at.x + room, at.y + px(35)};
    ImGui::GetWindowDrawList()->AddRectFilled(from, to, t.raised, px(3));
    ImGui::GetWindowDrawList()->AddRectFilled(from, {from.x + (to.x - from.x) * static_cast<float>(job->share), to.y},
                                              t.accent, px(3));
  }
  ImGui::SetCursorPos({before.x + width - button - px(10), before.y + px(7)});
  if (going) {
    if (plain_button("Cancel", {button, px(30)})) view.send(intent::CancelJob{job->id});
  } else if (here       ? plain_button("Open", {button, px(30)})
             : row.best ? accent_button("Get", {button, px(30)})
                        : plain_button("Get", {button, px(30)})) {
    if (here)
      view.send(intent::OpenModel{job->opens});
    else
      view.send(intent::StartJob{api::PullRequest{row.reference}});
    wanted_ = row.reference;
  }
  record_widget_position((going ? "Cancel " : here ? "Open " : "Get ") + row.name);
  ImGui::PopID();
  ImGui::SetCursorPos({before.x, before.y + height});
  ImGui::Dummy({width, 0});
}

} // namespace ridge::ui
