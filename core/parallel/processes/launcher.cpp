// A process's rank, as launchers tell it.
#include "core/error.h"
#include "core/parallel/processes/joining.h"
#include "core/strings/loopback.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace ridge::core {
namespace {

const char* variable(const char* name) { // null: none
  const char* text = name ? std::getenv(name) : nullptr;
  return text && *text ? text : nullptr;
}

// The value of the first name that is set.
int64_t number(std::initializer_list<const char*> names, int64_t otherwise, int64_t least, int64_t most) {
  for (const char* name : names) {
    const char* text = variable(name);
    if (!text) continue;
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text, text + std::strlen(text), value);
    if (problem != std::errc() || *end != 0 || value < least || value > most)
      throw Error(fmt::format("{}={}: expected a number from {} to {}", name, text, least, most), Error::kUsage);
    return value;
  }
  return otherwise;
}

// A batch script has variables of its job's tasks, but is none of them.
bool is_task_of_srun() {
  const char* environment = variable("ENVIRONMENT");
  return variable("SLURM_PROCID") && (variable("SLURM_STEP_ID") || !environment || environment != std::string("BATCH"));
}

} // namespace

std::string first_slurm_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t number_end = list.find_first_of(",-]", bracket), close = list.find(']', bracket);
  if (close == std::string::npos || number_end == bracket + 1)
    throw Error(fmt::format("SLURM_JOB_NODELIST={}: expected hosts such as node[01-04]; or set MASTER_ADDR", list),
                Error::kUsage);
  // node[1-2]-ib: what follows the brackets belongs to the name.
  const size_t name_end = std::min(list.find_first_of(",[", close), list.size());
  return list.substr(0, bracket) + list.substr(bracket + 1, number_end - bracket - 1) +
         list.substr(close + 1, name_end - close - 1);
}

ProcessRank ProcessRank::from_environment() {
  ProcessRank me;
  const bool srun = is_task_of_srun();
  const auto of_srun = [&](const char* name) -> const char* { return srun ? name : nullptr; };
  me.ranks = static_cast<int>(number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", of_srun("SLURM_NTASKS")}, 1, 1, 1024));
  if (me.ranks == 1) return me;
  me.rank = static_cast<int>(number({"RANK", "OMPI_COMM_WORLD_RANK", of_srun("SLURM_PROCID")}, -1, 0, me.ranks - 1));
  if (me.rank < 0) throw Error(fmt::format("WORLD_SIZE={}, but RANK is not set", me.ranks), Error::kUsage);
  me.local_rank = static_cast<int>(
      number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", of_srun("SLURM_LOCALID")}, me.rank, 0, me.ranks - 1));
  me.port = 1 + static_cast<int>(number({"MASTER_PORT"}, me.port - 1, 1, 65534));
  me.patience_seconds = static_cast<double>(number({"RIDGE_RANK_TIMEOUT"}, 60, 1, 86400));
  const auto here = number({"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, 0, 1, me.ranks);
  const auto hosts = number({of_srun("SLURM_STEP_NUM_NODES"), of_srun("SLURM_NNODES")}, 0, 1, me.ranks);
  const char* list = variable(of_srun("SLURM_STEP_NODELIST"));
  if (!list) list = variable(of_srun("SLURM_JOB_NODELIST"));
  if (const char* host = variable("MASTER_ADDR"))
    me.host = host;
  else if (list && hosts != 1)
    me.host = first_slurm_host(list);
  me.one_host = here > 0 ? here == me.ranks : hosts > 0 ? hosts == 1 : is_loopback(me.host);
  return me;
}

} // namespace ridge::core
