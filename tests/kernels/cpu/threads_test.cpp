// Thread counts on simulated machines.
#include "kernels/cpu/executor/threads.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sched.h>

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
  CHECK(machine.of(16).worker_threads() == 16);
  CHECK(machine.of(4).threads() == 4);
  CHECK(find_processors({0, 8}, machine.folder.path()).threads() == 1);
  CHECK(find_processors({3}, machine.folder.path()).description() == "1: one per usable core, 1 processor in total");
  CHECK(machine.of(16).description() == "8: one per usable core, 16 processors in total");
}

TEST_CASE("threads: offline processors are neither counted nor siblings") {
  const Machine machine;
  machine.has(4, 2);
  for (const int offline : {2, 5}) {
    std::filesystem::remove_all(machine.folder / fmt::format("sys/devices/system/cpu/cpu{}/topology", offline));
    machine.write(fmt::format("sys/devices/system/cpu/cpu{}/online", offline), "0");
  }
  machine.write("sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "6");
  machine.write("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1");
  const Processors found = find_processors({0, 1, 3, 4, 6, 7}, machine.folder.path());
  CHECK(found.usable == 6);
  CHECK(found.threads() == 4);
}

TEST_CASE("threads: 8 performance cores with two threads each and 16 efficiency cores take work together") {
  const Machine machine;
  for (int i = 0; i < 32; ++i) {
    const std::string cpu = fmt::format("sys/devices/system/cpu/cpu{}/", i);
    const bool fast = i < 16;
    machine.write(cpu + "topology/thread_siblings_list",
                  fast ? fmt::format("{}-{}", i / 2 * 2, i / 2 * 2 + 1) : std::to_string(i));
    machine.write(cpu + "cpufreq/cpuinfo_max_freq", i < 4 ? "5800000" : fast ? "5500000" : "4300000");
  }
  machine.write("sys/devices/cpu_core/cpus", "0-15");
  machine.write("sys/devices/cpu_atom/cpus", "16-31");
  CHECK(machine.of(32).threads() == 24);
  CHECK(machine.of(32).description() == "24: one per usable core, 32 processors in total; 8 cores fast and 16 slower, "
                                        "work is split by their speed");
  CHECK(machine.of(16).slower == 0);
  CHECK(find_processors({16, 17}, machine.folder.path()).slower == 0); // alone, efficiency cores are equal
  // Two cores of a low-power island, too.
  machine.write("sys/devices/cpu_atom/cpus", "16-33");
  for (const char* island : {"32", "33"})
    machine.write(fmt::format("sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq", island), "2500000");
  CHECK(machine.of(34).threads() == 24);
  CHECK(machine.of(34).description() ==
        "24: one per usable core, 34 processors in total; 8 cores fast and 16 slower, work is split by their speed; 2 "
        "cores left out, slower than half of the fastest");
}

TEST_CASE("threads: arm64's cores of several kinds differ in capacity") {
  const Machine machine;
  machine.has(8, 1);
  for (int i = 0; i < 8; ++i)
    machine.write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpu_capacity", i < 4   ? "250"
                                                                                      : i < 7 ? "750"
                                                                                              : "1024");
  CHECK(machine.of(8).threads() == 4);
  CHECK(machine.of(8).left_out == 4);
  CHECK(machine.of(8).slower == 7);
  CHECK(machine.of(4).threads() == 4);
  CHECK(machine.of(4).slower == 0);
}

TEST_CASE("threads: two sockets are two memory nodes, and the description says what to do") {
  const Machine machine;
  machine.has(32, 2);
  for (int i = 0; i < 64; ++i)
    std::filesystem::create_directories(machine.folder /
                                        fmt::format("sys/devices/system/cpu/cpu{}/node{}", i, i / 16 % 2));
  CHECK(machine.of(64).nodes == 2);
  CHECK(machine.of(64).threads() == 32);
  CHECK(machine.of(64).description() == "32: one per usable core, 64 processors in total; 2 memory nodes (numactl "
                                        "--interleave=all spreads a model over them)");
  CHECK(machine.of(16).nodes == 1);
}

TEST_CASE("threads: those near a device are of its memory node, where that is known") {
  const Machine machine;
  const std::vector<int> usable = {0, 1, 9, 10};
  const auto near = [&](const std::string& bus) {
    return kernels::cpu::processors_near(bus, usable, machine.folder.path());
  };
  CHECK(near("0000:3B:00.0") == usable);
  machine.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1");
  CHECK(near("0000:3B:00.0") == usable); // a node without processors
  machine.write("sys/devices/system/node/node1/cpulist", "8-15");
  CHECK(near("0000:3B:00.0") == std::vector<int>{9, 10});
  machine.write("sys/devices/system/node/node1/cpulist", "32-63"); // none of them usable
  CHECK(near("0000:3b:00.0") == usable);
  machine.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "-1");
  CHECK(near("0000:3b:00.0") == usable);
}

TEST_CASE("threads: damaged files are as good as none") {
  const Machine machine;
  for (const char* text : {"", "abc", "-5", "0-", "0-7,x", "99999999999999999999", "0-99999999", "8-15"}) {
    CAPTURE(text);
    for (int i = 0; i < 4; ++i) {
      const std::string cpu = fmt::format("sys/devices/system/cpu/cpu{}/", i);
      machine.write(cpu + "topology/thread_siblings_list", text);
      machine.write(cpu + "cpu_capacity", i == 0 ? "1024" : i == 1 ? "nan" : i == 2 ? "-3" : "");
    }
    machine.write("sys/devices/cpu_atom/cpus", text);
    machine.write("proc/self/cgroup", std::string("0::/\nx:y\n:::\n") + text);
    for (const char* quota : {"", "100000", "max", "-1 100000", "0 0", "1e999 1", "abc 100000"}) {
      CAPTURE(quota);
      machine.write("sys/fs/cgroup/cpu.max", quota);
      CHECK(machine.of(4).threads() == 4);
      CHECK(machine.of(4).left_out == 0);
    }
    machine.write("sys/fs/cgroup/cpu.max", "1e300 1");
    CHECK(machine.of(4).threads() == 4);
  }
}

TEST_CASE("threads: a process bound to one processor has one") {
  cpu_set_t before, one;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const std::vector<int> all = kernels::cpu::usable_processors();
  CHECK(static_cast<int>(all.size()) == CPU_COUNT(&before));
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(kernels::cpu::usable_processors() == std::vector{all.back()});
  ::sched_setaffinity(0, sizeof before, &before);
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
  machine.write("sys/fs/cgroup/user/cpu.max", "150000 100000");
  CHECK(machine.of(8).worker_threads() == 2);
  CHECK(machine.of(8).description() == "2: a control group limits the CPU time to 1.5 processors, of 8 cores");
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
