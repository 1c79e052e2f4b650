// Form, list, progress and results of jobs.
#include "core/units.h"
#include "ui/panels/frontier_plot.h"
#include "ui/panels/job_form.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::Job, api::JobState, api::JobTable;

ImU32 state_color(JobState state) {
  const Theme& t = theme();
  switch (state) {
  case JobState::running: return t.amber;
  case JobState::done: return t.green;
  case JobState::failed: return t.red;
  default: return t.border;
  }
}

std::string line_of(const Job& job) {
  switch (job.state) {
  case JobState::waiting: return "waiting for the previous job";
  case JobState::running: return job.activity;
  case JobState::done: return job.result;
  case JobState::failed: return job.error;
  case JobState::cancelled:
    return api::kind_of(job.request) == api::JobKind::pull ? "cancelled; Run again resumes it"
                                                           : "cancelled; nothing was written";
  }
  return "";
}

std::string as_text(const JobTable& table) {
  std::string text = table.title.empty() ? "" : table.title + "\n";
  text += fmt::format("{}\n", fmt::join(table.columns, "\t"));
  for (const auto& row : table.rows) text += fmt::format("{}\n", fmt::join(row, "\t"));
  return text;
}

class JobsPanel : public Panel {
 public:
  void draw(const View& view) override {
    const api::Snapshot& now = view.now;
    if (!now.jobs->empty() && now.jobs->front().id > newest_) selected_ = newest_ = now.jobs->front().id;
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float gap = px(12), form = std::clamp(area.x * 0.32f, px(290), px(350)),
                list = std::clamp(px(64) + px(46) * static_cast<float>(now.jobs->size()), px(156), area.y * 0.45f);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("form", {form, area.y}, "New job", true);
    form_.draw(view);
    end_card();
    ImGui::SameLine();
    ImGui::BeginGroup();
    begin_card("list", {area.x - form - gap, list}, "Jobs (one at a time)");
    draw_list(*now.jobs);
    end_card();
    begin_card("job", {area.x - form - gap, area.y - list - gap});
    draw_job(view);
    end_card();
    ImGui::EndGroup();
    ImGui::PopStyleVar();
    form_.draw_dialog(view);
  }

  bool show(std::string_view kind) override { return form_.show(kind); }

  bool take_folder(const std::string& path) override {
    form_.show_conversion(path);
    return true;
  }

 private:
  void draw_list(const std::vector<Job>& jobs) {
    if (jobs.empty()) {
      wrapped_text("Nothing yet. Jobs started on the left appear here and run while you chat.", theme().dim,
                   fonts().small);
      return;
    }
    ImGui::BeginChild("jobs");
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(4), px(4)));
    for (const Job& job : jobs) draw_row(job);
    ImGui::PopStyleVar();
    ImGui::EndChild();
  }

  void draw_row(const Job& job) {
    const Theme& t = theme();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x, height = px(42);
    ImGui::PushID(static_cast<int>(job.id));
    if (ImGui::Selectable("##job", job.id == selected_, 0, {width, height})) selected_ = job.id;
    ImGui::PopID();
    if (!ImGui::IsItemVisible()) return;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->AddCircleFilled({at.x + px(12), at.y + px(13)}, px(4), state_color(job.state));
    const std::string time =
        job.state == JobState::running && job.remaining_s >= 0
            ? fmt::format("{:.0f} %, {} left", 100 * job.share, core::human_seconds(job.remaining_s))
        : job.state == JobState::running ? fmt::format("{:.0f} %", 100 * job.share)
        : job.state == JobState::waiting ? ""
                                         : core::human_seconds(job.elapsed_s);
    const float time_width = size_of(time, fonts().small).x;
    text_at({at.x + width - px(10), at.y + px(6)}, time, t.dim, fonts().small, 1);
    draw->PushClipRect(at, {at.x + width - time_width - px(22), at.y + height}, true);
    text_at({at.x + px(26), at.y + px(3)}, job.title, t.text, fonts().body);
    draw->PopClipRect();
    draw->PushClipRect(at, {at.x + width - px(10), at.y + height}, true);
    if (job.state == JobState::running) {
      const float label = px(26) + std::max(px(150), size_of(job.activity, fonts().small).x + px(12));
      text_at({at.x + px(26), at.y + px(23)}, job.activity, t.dim, fonts().small);
      const ImVec2 from{at.x + label, at.y + px(29)}, to{at.x + width - px(10), at.y + px(34)};
      draw->AddRectFilled(from, to, t.raised, px(3));
      draw->AddRectFilled(from, {from.x + (to.x - from.x) * static_cast<float>(job.share), to.y}, t.accent, px(3));
    } else {
      text_at({at.x + px(26), at.y + px(23)}, line_of(job), job.state == JobState::failed ? t.red : t.dim,
              fonts().small);
    }
    draw->PopClipRect();
  }

  void draw_job(const View& view) {
    const auto& jobs = *view.now.jobs;
    const auto found = std::ranges::find(jobs, selected_, &Job::id);
    if (found == jobs.end()) {
      wrapped_text("Results and output files appear here.", theme().dim, fonts().small);
      return;
    }
    const Job& job = *found;
    const Theme& t = theme();
    text(job.title, t.text, fonts().bold);
    if (job.state == JobState::running)
      wrapped_text(
          fmt::format("{} · {:.0f} % · {}{}", job.activity, 100 * job.share, core::human_seconds(job.elapsed_s),
                      job.remaining_s >= 0 ? fmt::format(" so far, {} left", core::human_seconds(job.remaining_s))
                                           : " so far"),
          t.dim, fonts().small);
    else
      wrapped_text(line_of(job), job.state == JobState::failed ? t.red : t.dim, fonts().small);
    if (!job.opens.empty()) wrapped_text(job.opens, t.dim, fonts().small);
    for (const std::string& note : job.notes) wrapped_text(note, t.amber, fonts().small);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(8)));
    draw_actions(view, job);
    ImGui::PopStyleVar();
    ImGui::BeginChild("tables");
    if (!job.frontier.empty())
      if (const api::FrontierPoint* point = draw_frontier(job.frontier, px(260)))
        form_.show_quantization(std::get<api::QuantizeRequest>(job.request), *point);
    for (const JobTable& table : job.tables) draw_table(table);
    ImGui::EndChild();
  }

  void draw_actions(const View& view, const Job& job) {
    bool first = true;
    const auto button = [&](const char* name) {
      if (!first) ImGui::SameLine();
      first = false;
      return ImGui::Button(name);
    };
    if (!job.over()) {
      if (button("Cancel")) view.send(intent::CancelJob{job.id});
      return;
    }
    if (!job.opens.empty()) {
      if (button("Open")) view.send(intent::OpenModel{job.opens});
      if (button("Copy path")) ImGui::SetClipboardText(job.opens.c_str());
    }
    if (!job.tables.empty() && button("Copy tables")) {
      std::string all;
      for (const JobTable& table : job.tables) all += as_text(table) + "\n";
      ImGui::SetClipboardText(all.c_str());
    }
    if (!job.error.empty() && button("Copy message")) ImGui::SetClipboardText(job.error.c_str());
    if (button("Run again")) view.send(intent::StartJob{job.request});
    if (button("Remove")) view.send(intent::ForgetJob{job.id});
  }

  static void draw_table(const JobTable& table) {
    if (!table.title.empty()) {
      ImGui::Dummy({0, px(4)});
      text(table.title, theme().dim, fonts().small);
    }
    ImGui::PushFont(fonts().small);
    const auto columns = static_cast<int>(table.columns.size());
    if (ImGui::BeginTable(table.columns.front().c_str(), columns,
                          ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_PadOuterX |
                              ImGuiTableFlags_SizingFixedFit)) {
      for (int i = 0; i < columns; ++i)
        ImGui::TableSetupColumn(table.columns[static_cast<size_t>(i)].c_str(),
                                i == 0 ? ImGuiTableColumnFlags_WidthStretch : ImGuiTableColumnFlags_WidthFixed);
      ImGui::TableHeadersRow();
      for (const auto& row : table.rows) {
        ImGui::TableNextRow();
        for (const std::string& cell : row) {
          ImGui::TableNextColumn();
          const bool number =
              &cell != &row.front() && !cell.empty() && std::isdigit(static_cast<unsigned char>(cell[0]));
          const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(cell.c_str()).x;
          if (number) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room));
          ImGui::TextUnformatted(cell.c_str());
        }
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  JobForm form_;
  uint64_t selected_ = 0, newest_ = 0;
};

} // namespace

std::unique_ptr<Panel> make_jobs_panel() { return std::make_unique<JobsPanel>(); }

} // namespace ridge::ui
