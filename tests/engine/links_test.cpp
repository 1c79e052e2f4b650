// Which way values go between ranks in several processes.
#include "engine/loading/links.h"

#include "core/error.h"
#include "kernels/cuda/exchange/nccl_library.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

using namespace ridge;
using engine::Link;
using engine::RankFacts;

namespace {

struct EnvironmentVariable {
  const char* name;
  EnvironmentVariable(const char* name, const std::string& value) : name(name) { ::setenv(name, value.c_str(), 1); }
  ~EnvironmentVariable() { ::unsetenv(name); }
};

std::vector<RankFacts> two(const RankFacts& first, const RankFacts& second) { return {first, second}; }

std::string error_of(const std::vector<RankFacts>& ranks) {
  try {
    engine::choose_link(ranks);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace

TEST_CASE("ranks of one host exchange packets, of several hosts by NCCL, and else by TCP with the reason") {
  const RankFacts first{"a", "0000:01:00.0", "", ""}, second{"a", "0000:02:00.0", "", ""};
  CHECK(engine::choose_link(two(first, second)).link == Link::packets);
  CHECK(engine::choose_link(two(first, second)).reason.empty());

  const engine::LinkChoice no_peers = engine::choose_link(two(first, second), "rank 1: no peer access");
  CHECK(no_peers.link == Link::nccl);
  CHECK(no_peers.reason == "rank 1: no peer access");

  RankFacts elsewhere = second;
  elsewhere.host = "b";
  CHECK(engine::choose_link(two(first, elsewhere)).link == Link::nccl);
  elsewhere.nccl_problem = "libnccl.so.2 is not there: install it";
  const engine::LinkChoice slow = engine::choose_link(two(first, elsewhere));
  CHECK(slow.link == Link::tcp);
  CHECK(slow.reason == "the ranks are on several hosts; rank 1: libnccl.so.2 is not there: install it");

  RankFacts same = second;
  same.gpu = first.gpu;
  CHECK(engine::choose_link(two(first, same)).link == Link::tcp);
  CHECK(engine::choose_link(two(first, same)).reason == "ranks 0 and 1 share the GPU 0000:01:00.0");
  same.host = "b"; // a bus of another host
  CHECK(engine::choose_link(two(first, same)).link == Link::nccl);

  RankFacts cpu = second;
  cpu.gpu = "";
  CHECK(engine::choose_link(two(first, cpu)).link == Link::tcp);
  CHECK(engine::choose_link(two(first, cpu)).reason == "rank 1 runs on the CPU");
  CHECK(engine::choose_link(two(cpu, cpu)).link == Link::tcp);
  CHECK(engine::choose_link(two(cpu, cpu)).reason.empty());
}

TEST_CASE("ranks of one host are a group, hosts come in the order of their first ranks") {
  const auto on = [](const char* host, const char* gpu) { return RankFacts{host, gpu, "", ""}; };
  using Groups = engine::RankGroups;
  CHECK(engine::groups_of({on("a", "1"), on("a", "2")}) == Groups{{0, 1}});
  CHECK(engine::groups_of({on("a", "1"), on("b", "1")}) == Groups{{0}, {1}});
  CHECK(engine::groups_of({on("b", "1"), on("a", "1"), on("b", "2"), on("a", "2")}) == Groups{{0, 2}, {1, 3}});
  CHECK(engine::groups_of({on("a", ""), on("b", "")}) == Groups{{0}, {1}}); // stages may be on the CPU
  // TCP within a group goes through rank 0.
  CHECK(engine::groups_of({on("a", ""), on("b", ""), on("b", "")}) == Groups{{0, 1, 2}});
}

TEST_CASE("a wanted way is taken, or its absence is an error") {
  RankFacts first{"a", "0000:01:00.0", "nccl", ""}, second{"a", "0000:02:00.0", "nccl", ""};
  CHECK(engine::choose_link(two(first, second)).link == Link::nccl);
  second.nccl_problem = "libnccl.so.2 is not there: install it";
  CHECK(error_of(two(first, second)) == "RIDGE_RANK_LINK=nccl: rank 1: libnccl.so.2 is not there: install it");
  second.wanted = "tcp";
  CHECK(error_of(two(first, second)) ==
        "RIDGE_RANK_LINK is \"tcp\" for rank 1 and \"nccl\" for rank 0: every rank needs the same");
  first.wanted = "tcp";
  CHECK(engine::choose_link(two(first, second)).link == Link::tcp);
  CHECK(engine::choose_link(two(first, second)).reason.empty());
  first.wanted = second.wanted = "packets";
  second.host = "b";
  CHECK(error_of(two(first, second)) == "RIDGE_RANK_LINK=packets: the ranks are on several hosts");

  const EnvironmentVariable wanted("RIDGE_RANK_LINK", "fast");
  CHECK_THROWS_WITH_AS(engine::wanted_link(), "RIDGE_RANK_LINK=fast: expected packets, nccl or tcp", Error);
}

TEST_CASE("facts of ranks travel as text, and ranks gather all texts") {
  const RankFacts facts{"a host", "0000:01:00.0", "", "libnccl.so.2 is not there"};
  const RankFacts same = RankFacts::from(facts.text());
  CHECK(same.text() == facts.text());
  CHECK(same.nccl_problem == facts.nccl_problem);

  const std::string all_bytes = [] {
    std::string text;
    for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
    return text;
  }();
  auto communicators = core::make_thread_communicators(3);
  const std::vector<std::string> own = {"", all_bytes, "too long for this"};
  std::vector<std::vector<std::string>> gathered(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      gathered[rank] = core::gather_texts(*communicators[rank], rank == 2 ? "too long" : own[rank], 300);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& texts : gathered)
    CHECK(texts == std::vector<std::string>{"", all_bytes, "too long"});
}

TEST_CASE("the host's name can be overridden, and is the running kernel's") {
  CHECK(engine::host_id() == engine::host_id());
  CHECK(!engine::host_id().empty());
  const EnvironmentVariable given("RIDGE_HOST_ID", "second");
  CHECK(engine::host_id() == "second");
}

TEST_CASE("NCCL is found beside Python's programs, and a library that will not do is named with what to do") {
  namespace cuda = kernels::cuda;
  const tests::TemporaryFolder folder;
  const std::filesystem::path packages = folder / "venv/lib/python3.12/site-packages/nvidia/nccl/lib";
  std::filesystem::create_directories(packages);
  std::filesystem::create_directories(folder / "venv/bin");
  std::filesystem::copy_file(RIDGE_FAKE_NCCL_LIBRARY, packages / "libnccl.so.2");
  const std::vector<std::string> files = cuda::nccl_files("/none/bin:relative/bin:" + (folder / "venv/bin"), "");
  CHECK(files == std::vector<std::string>{"libnccl.so.2", (packages / "libnccl.so.2").string()});

  CHECK(cuda::load_nccl({folder / "libnccl.so.2"}).problem ==
        (folder / "libnccl.so.2") + " is missing: pip install nvidia-nccl-cu13, or the system's package libnccl2 "
                                    "(RIDGE_NCCL names a file elsewhere)");
  CHECK(cuda::load_nccl({"libm.so.6"}).problem == "libm.so.6 lacks expected functions");
  const std::vector<std::string> fake = {files[1]};
  {
    const EnvironmentVariable version("RIDGE_FAKE_NCCL_VERSION", "2804");
    CHECK(cuda::load_nccl(fake).problem == fake[0] + " is version 2.8.4: at least 2.9 works in CUDA graphs");
  }
  const EnvironmentVariable version("RIDGE_FAKE_NCCL_VERSION", "22809");
  const cuda::NcclLibrary good = cuda::load_nccl(fake);
  CHECK(good.problem.empty());
  CHECK(good.version_text() == "2.28.9");
  good.expect(0, "ncclAllReduce");
  CHECK_THROWS_WITH_AS(good.expect(3, "ncclAllReduce"), "ncclAllReduce failed: a fake's error", Error);
  CHECK(std::string(std::getenv("NCCL_NVLS_ENABLE")) == "0");

  const EnvironmentVariable named("RIDGE_NCCL", "/opt/libnccl.so.2");
  CHECK(cuda::nccl_files("/usr/bin", "/root") == std::vector<std::string>{"/opt/libnccl.so.2"});
}
