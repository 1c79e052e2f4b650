// Jobs: what to do on the left, what is being done and what came of it on the right.
#include "ui/panels/panel.h"
#include "ui/widgets/file_dialog.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace ridge::ui {
namespace {

namespace intent = core::intent;
using core::Job, core::JobKind, core::JobRequest, core::JobState, core::JobTable;

constexpr const char* kConversions[] = {"as it is", "f16", "bf16", "f32", "q8_0"};
constexpr const char* kMethods[] = {"plain", "awq", "gptq", "awq+gptq"};

std::string stem(const std::string& path) {
  std::filesystem::path p = path;
  if (p.filename().empty()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

ImU32 color_of(JobState state) {
  const Theme& t = theme();
  switch (state) {
  case JobState::running: return t.amber;
  case JobState::done: return t.green;
  case JobState::failed: return t.red;
  default: return t.border;
  }
}

// What a job says of itself in one line.
std::string line_of(const Job& job) {
  switch (job.state) {
  case JobState::waiting: return "waiting for the job before it";
  case JobState::running: return job.activity;
  case JobState::done: return job.result;
  case JobState::failed: return job.error;
  case JobState::cancelled: return "cancelled; nothing was written";
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
    const core::Snapshot& now = view.now;
    if (!now.jobs->empty() && now.jobs->front().id > newest_) selected_ = newest_ = now.jobs->front().id;
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float gap = px(12), form = std::clamp(area.x * 0.32f, px(290), px(350)),
                list = std::clamp(px(64) + px(46) * static_cast<float>(now.jobs->size()), px(156), area.y * 0.45f);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    begin_card("form", {form, area.y}, "New job", true);
    draw_form(view);
    end_card();
    ImGui::SameLine();
    ImGui::BeginGroup();
    begin_card("list", {area.x - form - gap, list}, "Jobs, one at a time");
    draw_list(*now.jobs);
    end_card();
    begin_card("job", {area.x - form - gap, area.y - list - gap});
    draw_job(view);
    end_card();
    ImGui::EndGroup();
    ImGui::PopStyleVar();
    dialog_.draw(now.recent);
  }

  bool show(std::string_view kind) override {
    for (int i = 0; i < 4; ++i)
      if (kind == kKinds[i]) {
        kind_ = i;
        return true;
      }
    return false;
  }

  bool take_folder(const std::string& path) override {
    kind_ = static_cast<int>(JobKind::convert);
    request_.input = path;
    written_ = false;
    return true;
  }

 private:
  static constexpr const char* kKinds[] = {"convert", "quantize", "bench", "roofline"};

  JobKind kind() const { return static_cast<JobKind>(kind_); }

  static void label(const char* text) {
    ImGui::Dummy({0, 0});
    dim_text(text);
  }

  // A path to type or to look for; true where it changed.
  bool path_field(const char* id, std::string& path, const char* hint, FileDialog::For what, const char* heading) {
    ImGui::PushID(id);
    ImGui::SetNextItemWidth(-px(44));
    bool changed = ImGui::InputTextWithHint("##path", hint, &path);
    ImGui::SameLine(0, px(6));
    if (ImGui::Button("…", {px(38), 0}))
      dialog_.ask(what, heading, path, [&path, this](const std::string& taken) {
        path = taken;
        if (&path == &request_.output) written_ = true;
      });
    tooltip(heading);
    ImGui::PopID();
    return changed;
  }

  void text_field(const char* id, std::string& text, float width) {
    ImGui::SetNextItemWidth(width);
    ImGui::InputText(id, &text);
  }

  void draw_form(const View& view) {
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(5)));
    segments("kind", {"Convert", "Quantize", "Bench", "Roofline"}, kind_);
    ImGui::Dummy({0, px(2)});
    const auto& model = view.now.model;
    const std::string open = model ? model->path : "";
    const std::string hint = model ? "the open model" : "a model file";
    std::string suggestion;
    std::string missing; // what keeps the job from starting
    switch (kind()) {
    case JobKind::convert:
      label("Checkpoint");
      path_field("checkpoint", request_.input, "folder with config.json", FileDialog::For::checkpoint,
                 "Choose a checkpoint's folder");
      label("Matrices that are not quantized become");
      ImGui::SetNextItemWidth(-1);
      ImGui::Combo("##type", &conversion_, kConversions, IM_ARRAYSIZE(kConversions));
      if (request_.input.empty()) missing = "Choose a folder first.";
      suggestion = request_.input.empty()
                       ? ""
                       : parent(request_.input) + stem(request_.input) +
                             (conversion_ ? fmt::format("-{}", kConversions[conversion_]) : "") + ".gguf";
      break;
    case JobKind::quantize: suggestion = draw_quantize(view, hint, missing); break;
    case JobKind::bench: {
      label("Model");
      path_field("model", model_, hint.c_str(), FileDialog::For::any, "Choose a model to measure");
      const float third = (ImGui::GetContentRegionAvail().x - px(16)) / 3;
      label("Tokens: prompt, generated, in the context before");
      text_field("##prompts", request_.prompts, third);
      ImGui::SameLine();
      text_field("##generated", request_.generated, third);
      ImGui::SameLine();
      text_field("##depths", request_.depths, third);
      label("Repetitions");
      ImGui::SetNextItemWidth(-1);
      ImGui::SliderInt("##repetitions", &request_.repetitions, 1, 20, "%d", ImGuiSliderFlags_AlwaysClamp);
      dim_wrapped("Numbers or lists: 512 or 128,512,2048. Each combination is measured, and each is set beside what "
                  "this machine's memory gives.");
      break;
    }
    case JobKind::roofline:
      label("Shapes and steps of");
      path_field("model", model_, hint.c_str(), FileDialog::For::any, "Choose a model to place under the roofs");
      dim_wrapped(
          "Measures what this machine can do at most, then places every format's kernels and whole steps of the "
          "model under it. Some minutes; the machine should have nothing else to do.");
      break;
    }
    if (kind() == JobKind::convert || kind() == JobKind::quantize) {
      if (!written_) request_.output = suggestion;
      label("Write to");
      if (path_field("output", request_.output, "OUT.gguf", FileDialog::For::save, "Choose the file to write"))
        written_ = true;
      std::error_code ignored;
      if (request_.output.empty() && missing.empty()) missing = "Name the file to write.";
      if (!request_.output.empty() && std::filesystem::exists(request_.output, ignored))
        text("This file exists and will be replaced.", theme().amber, fonts().small);
    }
    ImGui::Dummy({0, px(4)});
    const char* names[] = {"Convert", "Quantize", "Measure speed", "Measure the machine"};
    const ImVec2 size{-1, px(34)};
    const bool pressed = missing.empty() ? accent_button(names[kind_], size) : ImGui::Button(names[kind_], size);
    if (pressed && missing.empty()) start(view, open);
    if (!missing.empty()) tooltip(missing);
    ImGui::PopStyleVar();
  }

  static std::string parent(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "" : folder.ends_with('/') ? folder : folder + "/";
  }

  static void dim_wrapped(const char* what) {
    ImGui::Dummy({0, px(2)});
    ImGui::PushTextWrapPos(0);
    dim_text(what);
    ImGui::PopTextWrapPos();
  }

  // Returns a name for the file.
  std::string draw_quantize(const View& view, const std::string& hint, std::string& missing) {
    label("Model");
    path_field("model", model_, hint.c_str(), FileDialog::For::model, "Choose a model to quantize");
    label("Types");
    segments("how", {"By recipe", "By size"}, by_size_);
    ImGui::SetNextItemWidth(-1);
    std::string suffix;
    if (by_size_) {
      ImGui::InputTextWithHint("##size", "4.2GiB", &target_);
      dim_text("Every tensor's type by measured error.");
      suffix = target_;
      if (target_.empty()) missing = "Say how large the file may be.";
    } else {
      if (ImGui::BeginCombo("##recipe", recipe_.c_str(), ImGuiComboFlags_HeightLarge)) {
        for (const auto& recipe : view.now.job_choices->recipes) {
          if (ImGui::Selectable(fmt::format("{:<10}##", recipe.name).c_str(), recipe.name == recipe_))
            recipe_ = recipe.name;
          ImGui::SameLine(px(150));
          dim_text(fmt::format("from {:.2f} bits per weight", recipe.bits_per_weight));
        }
        ImGui::EndCombo();
      }
      suffix = recipe_;
    }
    label("Method");
    ImGui::SetNextItemWidth(-1);
    ImGui::Combo("##method", &method_, kMethods, IM_ARRAYSIZE(kMethods));
    if (method_ > 0) {
      label("Calibration text");
      path_field("calibration", calibration_, "a text like those it will read", FileDialog::For::any,
                 "Choose a calibration text");
      if (calibration_.empty()) missing = "awq and gptq need a calibration text.";
    } else {
      label("Importance matrix, where there is one");
      path_field("imatrix", imatrix_, "none", FileDialog::For::any, "Choose an importance matrix");
    }
    ImGui::Checkbox("packed types too, at a loss", &packed_too_);
    const std::string from = !model_.empty() ? model_ : view.now.model ? view.now.model->path : "";
    const bool file = !model_.empty() || is_file(view);
    return from.empty() ? ""
                        : fmt::format("{}{}-{}.gguf", file ? parent(from) : "", file ? stem(from) : "guide", suffix);
  }

  // The open model is a file, not the guide inside the program.
  static bool is_file(const View& view) { return view.now.model && !view.now.model->built_in; }

  void start(const View& view, const std::string& open) {
    JobRequest request = request_;
    request.kind = kind();
    if (kind() == JobKind::convert) {
      request.type = conversion_ ? kConversions[conversion_] : "";
    } else {
      request.input = !model_.empty() ? model_ : is_file(view) ? open : "";
      request.type = by_size_ ? "" : recipe_;
      request.target_size = by_size_ ? target_ : "";
      request.method = kMethods[method_];
      request.calibration = method_ ? calibration_ : "";
      request.imatrix = method_ ? "" : imatrix_;
      request.allow_requantize = packed_too_;
    }
    view.send(intent::StartJob{std::move(request)});
    written_ = false;
  }

  void draw_list(const std::vector<Job>& jobs) {
    if (jobs.empty()) {
      dim_text("Nothing yet. What is started on the left appears here and goes on while you chat.");
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
    draw->AddCircleFilled({at.x + px(12), at.y + px(13)}, px(4), color_of(job.state));
    const std::string time = job.state == JobState::running && job.remaining_s >= 0
                                 ? fmt::format("{:.0f} %, {} left", 100 * job.share, time_text(job.remaining_s))
                             : job.state == JobState::running ? fmt::format("{:.0f} %", 100 * job.share)
                             : job.state == JobState::waiting ? ""
                                                              : time_text(job.elapsed_s);
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
      dim_text("Tables of what was measured, and files that were written, are shown here.");
      return;
    }
    const Job& job = *found;
    const Theme& t = theme();
    text(job.title, t.text, fonts().bold);
    ImGui::PushTextWrapPos(0);
    if (job.state == JobState::running)
      dim_text(
          fmt::format("{} · {:.0f} % · {}{}", job.activity, 100 * job.share, time_text(job.elapsed_s),
                      job.remaining_s >= 0 ? fmt::format(" so far, {} left", time_text(job.remaining_s)) : " so far"));
    else
      text(line_of(job), job.state == JobState::failed ? t.red : t.dim, fonts().small);
    if (!job.opens.empty()) dim_text(job.opens);
    for (const std::string& note : job.notes) text(note, t.amber, fonts().small);
    ImGui::PopTextWrapPos();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(8), px(8)));
    draw_actions(view, job);
    ImGui::PopStyleVar();
    ImGui::BeginChild("tables");
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
      if (button("Open it")) view.send(intent::OpenModel{job.opens});
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

  int kind_ = static_cast<int>(JobKind::quantize), conversion_ = 0, method_ = 0, by_size_ = 0;
  JobRequest request_;
  std::string model_, recipe_ = "Q4_K_M", target_, calibration_, imatrix_;
  bool written_ = false; // the output's name was typed, not suggested
  bool packed_too_ = false;
  uint64_t selected_ = 0, newest_ = 0;
  FileDialog dialog_;
};

} // namespace

std::unique_ptr<Panel> make_jobs_panel() { return std::make_unique<JobsPanel>(); }

} // namespace ridge::ui
