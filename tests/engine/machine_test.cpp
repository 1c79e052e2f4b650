#include "engine/loading/machine.h"

#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

using namespace ridge;

TEST_CASE("a control group leaves its limit less what is taken, of which the pages of files do not count") {
  const tests::TemporaryFolder folder;
  const auto room = [&] { return engine::group_memory(folder.path()); };
  CHECK(std::isinf(room()));
  folder.write("memory.max", "max\n");
  folder.write("memory.current", "5000\n");
  CHECK(std::isinf(room()));
  folder.write("memory.max", "8000\n");
  CHECK(room() == 3000);
  folder.write("memory.stat", "anon 1000\nfile 3500\ninactive_file 1500\nactive_file 500\n");
  CHECK(room() == 5000);
  folder.write("memory.current", "12000\n");
  CHECK(room() == 0);
}

TEST_CASE("a control group of the first version has a limit in another file") {
  const tests::TemporaryFolder folder;
  folder.write("memory.limit_in_bytes", "8000\n");
  folder.write("memory.usage_in_bytes", "7000\n");
  CHECK(engine::group_memory(folder.path()) == 1000);
}

TEST_CASE("what is available is no more than what the machine has") {
  CHECK(engine::available_memory() > 0);
  CHECK(engine::available_memory() <= engine::memory_bytes("MemTotal"));
}

TEST_CASE("a CPU without a name has the machine's, else its numbers") {
  const tests::TemporaryFolder folder;
  const auto name = [&] { return engine::cpu_name(folder.path()); };
  std::filesystem::create_directories(folder / "proc/device-tree");
  CHECK(name().empty());
  folder.write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  CHECK(name() == "arm64 0x41 0xd4f");
  folder.write("proc/device-tree/model", std::string("Raspberry Pi 5\0", 15));
  CHECK(name() == "Raspberry Pi 5");
  folder.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC\n");
  CHECK(name() == "AMD EPYC");
}
