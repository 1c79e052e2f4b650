#include "kernels/cpu/executor/threads.h"

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

namespace ridge::kernels::cpu {
namespace {

constexpr int kMaxProcessors = 1 << 20;

// A list of the kernel's, such as "0-3,8"; empty if damaged.
std::set<int> parse_list(const std::string& file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  std::set<int> numbers;
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&](int& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    at = after;
    return error == std::errc() && value >= 0 && value < kMaxProcessors;
  };
  for (;; ++at) {
    int first = 0;
    if (!number(first)) return {};
    int last = first;
    if (at < end && *at == '-' && (++at, !number(last))) return {};
    for (int i = first; i <= last; ++i) numbers.insert(i);
    if (at == end) return numbers;
    if (*at != ',') return {};
  }
}

// Relative to those of other processors; 0: unknown.
double speed_of(const std::string& folder) {
  for (const char* file : {"/cpu_capacity", "/cpufreq/cpuinfo_max_freq"}) {
    double speed = 0;
    if (std::ifstream(folder + file) >> speed && speed > 0) return speed;
  }
  return 0;
}

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

int rounded(double limit, int most) {
  return limit > 0 ? static_cast<int>(std::lround(std::clamp(limit, 1.0, static_cast<double>(most)))) : most;
}

} // namespace

int Processors::threads() const { return rounded(limit, cores - left_out); }
int Processors::worker_threads() const { return rounded(limit, usable); }

std::string Processors::description() const {
  const auto count = [](int n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); };
  std::string text = fmt::format("{}: ", threads());
  if (threads() < cores - left_out)
    text += fmt::format("a control group limits the CPU time to {:.3g} processors, of {}", limit, count(cores, "core"));
  else
    text += fmt::format("one per usable core, {} in total", count(usable, "processor"));
  if (slower > left_out)
    text += fmt::format("; {} fast and {} slower, work is split by their speed", count(cores - slower, "core"),
                        slower - left_out);
  if (left_out > 0) text += fmt::format("; {} left out, slower than half of the fastest", count(left_out, "core"));
  if (nodes > 1) text += fmt::format("; {} memory nodes (numactl --interleave=all spreads a model over them)", nodes);
  return text;
}

// A set of 1024 is too small for some kernels.
std::vector<int> usable_processors() {
  std::vector<int> usable;
  for (int count = 1024; count <= kMaxProcessors; count *= 2) {
    cpu_set_t* set = CPU_ALLOC(count);
    const size_t bytes = CPU_ALLOC_SIZE(count);
    const bool known = set && ::sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !known && errno == EINVAL;
    for (int i = 0; known && i < count; ++i)
      if (CPU_ISSET_S(i, bytes, set)) usable.push_back(i);
    CPU_FREE(set);
    if (!too_small) break;
  }
  if (usable.empty()) usable.push_back(0);
  return usable;
}

std::vector<int> processors_near(const std::string& bus, const std::vector<int>& usable, const std::string& root) {
  std::string folder = bus; // the kernel's names are in lower case
  std::ranges::transform(folder, folder.begin(), [](unsigned char c) { return std::tolower(c); });
  int node = -1;
  if (!(std::ifstream(fmt::format("{}/sys/bus/pci/devices/{}/numa_node", root, folder)) >> node) || node < 0)
    return usable;
  const std::set<int> there = parse_list(fmt::format("{}/sys/devices/system/node/node{}/cpulist", root, node));
  std::vector<int> near;
  std::ranges::copy_if(usable, std::back_inserter(near), [&](int processor) { return there.contains(processor); });
  return near.empty() ? usable : near;
}

void run_on(const std::vector<int>& processors) {
  if (processors.empty()) return;
  const int count = std::ranges::max(processors) + 1;
  cpu_set_t* set = CPU_ALLOC(count);
  if (!set) return;
  const size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set);
  for (const int processor : processors) CPU_SET_S(processor, bytes, set);
  ::sched_setaffinity(0, bytes, set); // only a matter of speed
  CPU_FREE(set);
}

Processors find_processors(const std::vector<int>& usable, const std::string& root) {
  struct Core {
    double speed = 0;
    bool atom = false;
  };
  const std::set<int> atoms = parse_list(root + "/sys/devices/cpu_atom/cpus"); // Intel's efficiency cores
  std::map<int, Core> cores;                                                   // by the first of the siblings
  std::set<std::string> nodes;
  double fastest = 0;
  for (const int processor : usable) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}", root, processor);
    const std::set<int> siblings = parse_list(folder + "/topology/thread_siblings_list");
    const double speed = speed_of(folder);
    cores[siblings.contains(processor) ? *siblings.begin() : processor] = {speed, atoms.contains(processor)};
    fastest = std::max(fastest, speed);
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable))
      if (const std::string name = entry.path().filename(); name.starts_with("node")) nodes.insert(name);
  }
  Processors found{.usable = static_cast<int>(usable.size()),
                   .cores = static_cast<int>(cores.size()),
                   .nodes = std::max(1, static_cast<int>(nodes.size())),
                   .limit = limit_of_groups(root)};
  const bool of_intel = std::ranges::any_of(cores, [](const auto& core) { return core.second.atom; }) &&
                        std::ranges::any_of(cores, [](const auto& core) { return !core.second.atom; });
  for (const auto& [first, core] : cores) {
    const bool slow = core.speed > 0 && core.speed < fastest / 2;
    found.left_out += slow;
    // Cores of one kind may differ by some percent.
    found.slower += slow || (of_intel ? core.atom : core.speed > 0 && core.speed < 0.8 * fastest);
  }
  return found;
}

const Processors& processors() {
  static const Processors found = find_processors(usable_processors());
  return found;
}

} // namespace ridge::kernels::cpu
