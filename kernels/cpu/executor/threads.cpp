#include "kernels/cpu/executor/threads.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace ridge::kernels::cpu {
namespace {

// In processors; 0: none.
double quota_of(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::ifstream second_version(folder + "/cpu.max"); second_version) {
    second_version >> quota >> period; // "max" fails to parse
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota; // -1: none
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

// Lowest limit of this process's control groups and their parents.
double limit_of_groups(const std::string& root) {
  double least = 0;
  std::ifstream groups(root + "/proc/self/cgroup"); // number:controllers:/path
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists_cpu(controllers)) continue;
    const std::string top = root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/cpu");
    std::string path = line.substr(second + 1);
    for (size_t slash = path.size(); slash != std::string::npos; slash = path.rfind('/')) {
      path.resize(slash);
      if (const double quota = quota_of(top + path); quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    }
  }
  return least;
}

std::vector<int> usable_processors() {
  cpu_set_t set;
  std::vector<int> usable;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) usable.push_back(i);
  if (usable.empty()) usable.push_back(0);
  return usable;
}

} // namespace

int Processors::threads() const {
  return limit > 0 ? std::clamp(static_cast<int>(std::lround(limit)), 1, cores) : cores;
}

Processors find_processors(const std::vector<int>& usable, const std::string& root) {
  std::set<std::string> cores, capacities;
  for (const int processor : usable) {
    const std::string number = std::to_string(processor), folder = root + "/sys/devices/system/cpu/cpu" + number;
    std::string siblings, capacity;
    std::getline(std::ifstream(folder + "/topology/thread_siblings_list"), siblings);
    cores.insert(siblings.empty() ? number : siblings);
    std::getline(std::ifstream(folder + "/cpu_capacity"), capacity); // arm64
    capacities.insert(capacity);
  }
  return {.usable = static_cast<int>(usable.size()),
          .cores = static_cast<int>(cores.size()),
          .limit = limit_of_groups(root),
          .hybrid = capacities.size() > 1 || std::filesystem::exists(root + "/sys/devices/cpu_atom")};
}

const Processors& processors() {
  static const Processors found = find_processors(usable_processors());
  return found;
}

} // namespace ridge::kernels::cpu
