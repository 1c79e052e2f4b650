// Entry point of test programs: sets up a home folder and prints commands that repeat failures.
#define DOCTEST_CONFIG_IMPLEMENT
#include "support/seed.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>

#ifdef RIDGE_SANITIZED
// ThreadSanitizer sees system libraries' memory accesses but not their synchronization.
extern "C" __attribute__((no_sanitize("thread"))) const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}
#endif

namespace {

std::string program;
unsigned chosen = 0;

std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : text) c == '\'' ? result += "'\\''" : result += c;
  return result + "'";
}

// Includes relevant variables, the seed and the test case.
std::string command_for(const char* test_case) {
  std::string command = "RIDGE_SEED=" + std::to_string(ridge::tests::run_seed().value) + " ";
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view variable = *entry, name = variable.substr(0, variable.find('='));
    if ((name.starts_with("RIDGE_") && name != "RIDGE_SEED" && name != "RIDGE_TEST_RUNNER") || name.starts_with("OMP_"))
      command += std::string(name) + "=" + shell_word(variable.substr(name.size() + 1)) + " ";
  }
  if (const char* runner = std::getenv("RIDGE_TEST_RUNNER")) command += std::string(runner) + " ";
  std::string name;
  for (const char* c = test_case; *c; ++c) name += *c == ',' ? "\\," : std::string(1, *c);
  return command + program + " -tc=" + shell_word(name);
}

class Repeat final : public doctest::IReporter {
 public:
  explicit Repeat(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& test) override {
    running_ = test.m_name;
    ridge::tests::run_seed().drawn = 0;
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (!stats.testCaseSuccess)
      std::printf("\nto repeat this: %s\n", command_for(running_).c_str()), std::fflush(stdout);
  }

  void test_run_end(const doctest::TestRunStats& stats) override { chosen = stats.numTestCasesPassingFilters; }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  const char* running_ = "";
};
DOCTEST_REGISTER_LISTENER("repeat", 1, Repeat);

constexpr std::string_view kSettings =
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME NO_COLOR "
    "HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_TOKEN HF_TOKEN_PATH HF_ENDPOINT LLAMA_CACHE OLLAMA_MODELS "
    "http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY "
    "WORLD_SIZE RANK LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK "
    "OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE RIDGE_RANK_SECRET RIDGE_RANK_SECRET_FILE RIDGE_RANK_TIMEOUT";

void forget_settings() {
  std::istringstream names{std::string(kSettings)};
  for (std::string name; names >> name;) ::unsetenv(name.c_str());
}

// Opens /dev/null for missing standard streams; otherwise the next opened file gets their number.
void open_streams() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDWR);
  if (file >= 0) ::close(file);
}

// Isolates tests from the user's home folder.
class Home {
 public:
  Home() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ridge-home-XXXXXX").string();
    if (::mkdtemp(pattern.data())) path_ = pattern;
    ::setenv("HOME", pattern.c_str(), 1);
  }
  ~Home() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

} // namespace

int main(int argc, char** argv) {
  program = argv[0];
  open_streams();
  forget_settings();
  const Home home;
  doctest::Context context(argc, argv);
  const int status = context.run();
  if (status != 0 || context.shouldExit() || chosen > 0) return status;
  std::puts("no test case has such a name"); // CTest splits names at semicolons
  return 1;
}
