// Sequences, cache use and prefix tree of the conversation or server.
#include "core/units.h"
#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

namespace ridge::ui {
namespace {

using api::Sequences;

constexpr ImGuiTableFlags kTableFlags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                                        ImGuiTableFlags_PadOuterX | ImGuiTableFlags_ScrollY |
                                        ImGuiTableFlags_SizingFixedFit;
constexpr int64_t kMaxIndent = 12; // deeper ones are not indented

struct Column {
  const char* name;
  float width; // 0: the rest
};

// Returns whether the table is visible and must be ended.
bool begin_table(const char* id, std::initializer_list<Column> columns) {
  if (!ImGui::BeginTable(id, static_cast<int>(columns.size()), kTableFlags)) return false;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (const Column& column : columns)
    ImGui::TableSetupColumn(column.name,
                            column.width > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_WidthStretch,
                            px(column.width));
  ImGui::TableHeadersRow();
  return true;
}

void cell(const std::string& what, ImU32 color) {
  ImGui::TableNextColumn();
  text(what, color, fonts().small);
}

void number(const std::string& what, ImU32 color) {
  ImGui::TableNextColumn();
  const float room = ImGui::GetContentRegionAvail().x - size_of(what, fonts().small).x;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room));
  text(what, color, fonts().small);
}

std::string ago(int64_t seconds) {
  return seconds < 5 ? "now" : core::human_seconds(static_cast<double>(seconds)) + " ago";
}

class SequencesPanel : public Panel {
 public:
  void draw(const View& view) override {
    const bool serves = view.now.serving->state == api::Serving::State::on && !view.now.serving->embeds;
    const Sequences& shown = serves && of_server_ ? view.now.serving->sequences : *view.now.sequences;
    const float gap = px(12);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(gap, gap));
    if (serves) segments("shown", {"chat", "server"}, of_server_);
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float top = std::clamp(area.y * 0.42f, px(150), px(300)), side = std::clamp(area.x * 0.3f, px(240), px(340));
    begin_card("rows", {area.x - side - gap, top}, "Sequences");
    draw_rows(shown);
    end_card();
    ImGui::SameLine();
    begin_card("streams", {side, top}, shown.streams.size() == 1 ? "Stream caches" : "Streams' caches", true);
    draw_streams(shown);
    end_card();
    begin_card("tree", {area.x, area.y - top - gap}, "Prefix tree");
    draw_tree(shown);
    end_card();
    ImGui::PopStyleVar();
  }

  bool show(std::string_view part) override {
    if (part != "chat" && part != "server") return false;
    of_server_ = part == "server";
    return true;
  }

 private:
  static void draw_rows(const Sequences& shown) {
    const Theme& t = theme();
    if (shown.rows.empty()) {
      wrapped_text("No sequences are running.", t.text, fonts().body);
      wrapped_text("Each answer of the chat or the server appears as a row while it is generated, with its stream, its "
                   "cached prompt tokens, its speed, and the requests queued behind it. Send a message in the chat, or "
                   "start the server, to see some.",
                   t.dim, fonts().small);
      return;
    }
    ImGui::PushFont(fonts().small);
    if (begin_table("rows", {{"#", 28},
                             {"state", 0},
                             {"stream", 46},
                             {"priority", 50},
                             {"prompt", 52},
                             {"cached", 52},
                             {"answer", 52},
                             {"tok/s", 46}})) {
      for (const Sequences::Row& row : shown.rows) {
        ImGui::TableNextRow();
        const auto& [word, color] = state_of(row.state);
        cell(fmt::format("{}", row.number + 1), t.text);
        cell(row.seconds_waiting > 0 ? fmt::format("{} {}", word, core::human_seconds(row.seconds_waiting))
             : row.state == Sequences::State::reading
                 ? fmt::format("{} {:.0f} %", word, 100 * share(row.evaluated_tokens, row.prompt_tokens))
                 : word,
             color);
        number(row.stream < 0 ? "–" : fmt::format("{}", row.stream + 1), t.text);
        number(fmt::format("{}", row.priority), row.priority == 0 ? t.dim : t.text);
        number(fmt::format("{}", row.prompt_tokens), t.text);
        number(fmt::format("{}", row.cached_tokens), t.text);
        number(fmt::format("{}", row.answer_tokens), t.text);
        number(row.tokens_per_s > 0 ? fmt::format("{:.1f}", row.tokens_per_s) : "–", t.text);
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  static std::pair<std::string, ImU32> state_of(Sequences::State state) {
    const Theme& t = theme();
    switch (state) {
    case Sequences::State::waiting: return {"waiting", t.amber};
    case Sequences::State::preempted: return {"preempted", t.amber};
    case Sequences::State::reading: return {"reading", t.accent};
    case Sequences::State::writing: return {"writing", t.green};
    }
    return {};
  }

  static double share(int64_t part, int64_t whole) {
    return std::min(1.0, static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole)));
  }

  static void draw_streams(const Sequences& shown) {
    const Theme& t = theme();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(6)));
    const float width = ImGui::GetContentRegionAvail().x;
    for (size_t i = 0; i < shown.streams.size(); ++i) {
      const Sequences::Stream& stream = shown.streams[i];
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const ImU32 color = stream.busy ? t.text : t.dim;
      text_at(at,
              fmt::format("{}  {}", i + 1,
                          stream.busy         ? "in use"
                          : stream.tokens > 0 ? "kept"
                                              : "empty"),
              color, fonts().small);
      text_at({at.x + width, at.y}, fmt::format("{} of {} tokens", stream.tokens, shown.context), color, fonts().small,
              1);
      ImGui::Dummy({width, fonts().small->FontSize});
      bar(static_cast<float>(share(stream.tokens, shown.context)), {width, px(5)},
          stream.busy ? t.accent : with_alpha(t.accent, 0.45f));
    }
    ImGui::PopStyleVar();
  }

  static void draw_tree(const Sequences& shown) {
    const Theme& t = theme();
    if (shown.prefix_budget == 0) {
      wrapped_text("The prefix cache is off: the window was started with --prefix-cache 0, or this engine cannot copy "
                   "its caches.",
                   t.dim, fonts().small);
      return;
    }
    const auto rest = shown.prefix_nodes - std::ssize(shown.prefixes);
    dim_text(fmt::format("{} of {} in memory{}", core::human_bytes(static_cast<double>(shown.prefix_bytes)),
                         core::human_bytes(static_cast<double>(shown.prefix_budget)),
                         rest > 0 ? fmt::format("; {} more parts not shown", rest) : ""));
    if (shown.prefixes.empty()) {
      wrapped_text("Evicted sequences are kept here and reused for texts with the same beginning. Start a second "
                   "conversation to see the first one here.",
                   t.dim, fonts().small);
      return;
    }
    ImGui::PushFont(fonts().small);
    if (begin_table(
            "tree",
            {{"begins with", 0}, {"from", 70}, {"tokens", 70}, {"texts", 56}, {"bytes", 80}, {"last used", 110}})) {
      const int64_t now = std::time(nullptr);
      for (const Sequences::Prefix& part : shown.prefixes) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        if (ImGui::IsRectVisible({1, fonts().small->FontSize})) draw_part(part);
        number(fmt::format("{}", part.first), t.dim);
        number(fmt::format("{}", part.tokens), t.text);
        number(part.texts > 1 ? fmt::format("{}", part.texts) : "", t.green);
        number(core::human_bytes(static_cast<double>(part.bytes)), t.text);
        number(part.held ? "reserved" : ago(now - part.used), part.held ? t.amber : t.dim);
      }
      ImGui::EndTable();
    }
    ImGui::PopFont();
  }

  static void draw_part(const Sequences::Prefix& part) {
    const Theme& t = theme();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float step = px(14), height = ImGui::GetTextLineHeight();
    const auto depth = static_cast<float>(std::min(part.branches, kMaxIndent));
    ImDrawList* draw = ImGui::GetWindowDrawList();
    for (float i = 0; i < depth; ++i) {
      const float x = at.x + step * (i + 0.4f);
      draw->AddLine({x, at.y - px(3)}, {x, at.y + height + px(3)}, t.border, px(1.5f));
    }
    text_at({at.x + step * depth, at.y}, part.text, part.texts > 1 ? t.text : mix(t.text, t.dim, 0.5f), fonts().small);
    ImGui::Dummy({ImGui::GetContentRegionAvail().x, height});
    tooltip(part.text);
  }

  int of_server_ = 0;
};

} // namespace

std::unique_ptr<Panel> make_sequences_panel() { return std::make_unique<SequencesPanel>(); }

} // namespace ridge::ui
