// Thread counts on simulated machines.
#include "kernels/cpu/executor/threads.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

using namespace ridge;
using kernels::cpu::find_processors;
using kernels::cpu::Processors;

namespace {

struct Machine {
  tests::TemporaryFolder folder;

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  // `cores` cores with `of_core` processors each.
  void has(int cores, int of_core) const {
    for (int i = 0; i < cores * of_core; ++i) {
      std::string siblings = std::to_string(i % cores);
      for (int k = 1; k < of_core; ++k) siblings += "," + std::to_string(i % cores + k * cores);
      write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list", siblings);
    }
  }
  Processors of(int processors) const {
    std::vector<int> usable(processors);
    std::iota(usable.begin(), usable.end(), 0);
    return find_processors(usable, folder.path());
  }
};

} // namespace

TEST_CASE("threads: one per core, of those that the process may run on") {
  const Machine machine;
  CHECK(machine.of(6).threads() == 6);
  machine.has(8, 2);
  CHECK(machine.of(16).cores == 8);
  CHECK(machine.of(16).threads() == 8);
  CHECK(machine.of(4).threads() == 4);
  CHECK(find_processors({0, 8}, machine.folder.path()).threads() == 1);
  CHECK(!machine.of(16).hybrid);
  machine.write("sys/devices/cpu_atom/cpus", "12-15");
  CHECK(machine.of(16).hybrid);
}

TEST_CASE("threads: arm64's cores of two kinds differ in capacity") {
  const Machine machine;
  machine.has(4, 1);
  for (int i = 0; i < 4; ++i)
    machine.write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpu_capacity", i < 2 ? "530" : "1024");
  CHECK(machine.of(4).hybrid);
  CHECK(!machine.of(2).hybrid);
  CHECK(machine.of(4).threads() == 4);
}

TEST_CASE("threads: no more than control groups give time for, to the nearest whole number") {
  const Machine machine;
  machine.has(8, 1);
  machine.write("proc/self/cgroup", "0::/user/app");
  machine.write("sys/fs/cgroup/user/app/cpu.max", "max 100000");
  CHECK(machine.of(8).threads() == 8);
  for (const auto& [quota, threads] :
       {std::pair("150000", 2), {"149000", 1}, {"20000", 1}, {"240000", 2}, {"2000000", 8}}) {
    machine.write("sys/fs/cgroup/user/cpu.max", std::string(quota) + " 100000");
    CHECK(machine.of(8).threads() == threads);
  }
  CHECK(machine.of(8).limit == 20);
}

TEST_CASE("threads: control groups of the first version count, too") {
  const Machine machine;
  machine.has(8, 1);
  machine.write("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/1\n0::/");
  machine.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1");
  machine.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000");
  CHECK(machine.of(8).threads() == 8);
  machine.write("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "300000");
  CHECK(machine.of(8).threads() == 3);
}
