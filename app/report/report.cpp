#include "app/report/report.h"

#include "app/terminal/streams.h"
#include "engine/loading/machine.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace ridge::app {

void print_report(std::string_view command, const nlohmann::ordered_json& report, int indent) {
  nlohmann::ordered_json all = {{"command", command}, {"machine", engine::machine_json()}};
  all.update(report);
  fmt::print("{}\n", all.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  flush_stdout();
}

} // namespace ridge::app
