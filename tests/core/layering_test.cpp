// Rules of the source tree that compilers do not check.
#include "support/reference.h"

#include <map>
#include <regex>
#include <set>

using namespace ridge;
namespace fs = std::filesystem;

namespace {

// Folders and what they may include; app may include all (docs/architecture.md).
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {"core"}},
    {"api", {"core", "api"}},
    {"quant", {"core", "quant"}},
    {"gguf", {"core", "quant", "gguf"}},
    {"media", {"core", "media"}},
    {"text", {"core", "gguf", "text"}},
    {"hub", {"core", "gguf", "hub"}},
    {"models", {"core", "quant", "gguf", "media", "models"}},
    {"kernels/cpu", {"core", "quant", "kernels/cpu"}},
    {"kernels/cuda", {"core", "quant", "kernels/cuda"}},
    {"engine", {"core", "api", "quant", "gguf", "media", "text", "models", "kernels/cpu", "kernels/cuda", "engine"}},
    {"measure",
     {"core", "api", "quant", "gguf", "media", "text", "models", "kernels/cpu", "kernels/cuda", "engine", "measure"}},
    {"convert",
     {"core", "api", "quant", "gguf", "media", "text", "models", "kernels/cpu", "kernels/cuda", "engine", "measure",
      "convert"}},
    {"server",
     {"core", "api", "quant", "gguf", "media", "text", "models", "kernels/cpu", "kernels/cuda", "engine", "server"}},
    {"ui", {"core", "api", "text", "ui"}},
};

struct Source {
  fs::path path;
  std::string text;
};

std::vector<Source> sources(const std::string& folder) {
  std::vector<Source> found;
  const fs::path root = RIDGE_SOURCE_DIR;
  if (!fs::exists(root / folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    static const std::set<std::string> kExtensions = {".h", ".cpp", ".cu", ".cuh", ".in"};
    if (entry.is_regular_file() && kExtensions.contains(entry.path().extension()))
      found.push_back({fs::relative(entry.path(), root), tests::read_file(entry.path())});
  }
  return found;
}

std::vector<Source> all_sources() {
  std::vector<Source> found = sources("app");
  for (const auto& [room, allowed] : kMayInclude) std::ranges::move(sources(room), std::back_inserter(found));
  return found;
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[1]);
  return found;
}

} // namespace

TEST_CASE("a room includes only what lies below it") {
  for (const auto& [room, allowed] : kMayInclude)
    for (const Source& source : sources(room))
      for (const std::string& target : matches(source.text, R"re(#include "((?:kernels/)?[a-z]+)/[^"]*")re")) {
        CAPTURE(source.path);
        CHECK_MESSAGE(allowed.contains(target), source.path, " includes ", target, "/");
      }
}

using Includes = std::map<std::string, std::set<std::string>>;

std::string cycle_from(const Includes& includes, const std::string& at, std::vector<std::string>& way,
                       std::set<std::string>& done) {
  if (const auto begin = std::ranges::find(way, at); begin != way.end()) {
    std::string cycle;
    for (auto folder = begin; folder != way.end(); ++folder) cycle += *folder + " -> ";
    return cycle + at;
  }
  if (!done.insert(at).second) return "";
  way.push_back(at);
  if (const auto found = includes.find(at); found != includes.end())
    for (const std::string& next : found->second)
      if (std::string cycle = cycle_from(includes, next, way, done); !cycle.empty()) return cycle;
  way.pop_back();
  return "";
}

TEST_CASE("folders do not include each other in a circle") {
  Includes includes;
  for (const Source& source : all_sources()) {
    const fs::path folder = source.path.parent_path();
    for (const std::string& target : matches(source.text, R"re(#include "([^"]+)/[^"/]*")re"))
      if (target != folder) includes[folder.string()].insert(target);
  }
  CHECK(includes.size() > 50);
  std::set<std::string> done;
  for (const auto& [folder, targets] : includes) {
    std::vector<std::string> way;
    CHECK(cycle_from(includes, folder, way, done) == "");
  }
}

TEST_CASE("CUDA appears only under kernels/cuda") {
  for (const Source& source : all_sources()) {
    CAPTURE(source.path);
    if (!source.path.string().starts_with("kernels/cuda"))
      CHECK(matches(source.text, R"re(#include <(cuda[^>]*|cublas[^>]*)>)re").empty());
  }
}

TEST_CASE("libraries neither print nor exit") {
  for (const auto& [folder, allowed] : kMayInclude)
    for (const Source& source : sources(folder)) {
      CAPTURE(source.path);
      CHECK(matches(source.text, R"re(\b(std::cout|std::cerr|fmt::print|std::puts|std::exit|[^n]printf)\b)re").empty());
    }
}

TEST_CASE("JSON from outside is read with limits, by core/json alone") {
  for (const char* room :
       {"core", "api", "gguf", "hub", "media", "text", "models", "engine", "convert", "measure", "server", "ui", "app"})
    for (const Source& source : sources(room)) {
      CAPTURE(source.path);
      CHECK(matches(source.text, R"re(((?:[Jj]son|ordered_json)::(?:parse|accept)\())re").empty());
      const bool counts_itself = source.path == "core/json/parse.cpp" || source.path == "gguf/safetensors.cpp";
      if (!counts_itself) CHECK(matches(source.text, R"re((sax_parse))re").empty());
    }
}

TEST_CASE("comments are plain English: subjects first, no persons for things, no phrases for plain verbs") {
  struct Lint {
    const char *pattern, *advice;
  };
  constexpr Lint kLints[] = {
      {R"re((?:^ ?|[.:] )(Of [a-z]))re", "begin with the subject"},
      {R"re(\b(nobody|somebody|whoever|who|anybody|everybody)\b)re", "name the thing"},
      {R"re(\b(goes on|go on|went on)\b)re", "say continues, resumes"},
      {R"re(\b(at hand|by itself|stands? for|takes? place|of its own)\b)re", "use a plain verb, or leave it out"},
      {R"re(\b((?:is|are) to be|has to be)\b)re", "say must"},
  };
  int comments = 0;
  for (const Source& source : all_sources())
    for (const std::string& comment : matches(source.text, R"re(//([^\n]*))re")) {
      ++comments;
      for (const Lint& lint : kLints)
        CHECK_MESSAGE(matches(comment, lint.pattern).empty(), source.path, ": ", std::string(lint.advice), ": ",
                      comment);
    }
  CHECK(comments > 1000);
}

TEST_CASE("texts are plain English, too") {
  constexpr const char* kOdd =
      R"re((\b(?:nobody|somebody|whoever|goes on|went on|at hand|by itself|of its own|lies? beside)\b)re"
      R"re(|(?:[:}'"] |^)is no [a-km-z]))re";
  int texts = 0;
  for (const Source& source : all_sources())
    for (const std::string& text : matches(source.text, R"re("((?:[^"\\\n]|\\.)*)")re")) {
      ++texts;
      CHECK_MESSAGE(matches(text, kOdd).empty(), source.path, ": ", text);
    }
  CHECK(texts > 1000);
}

TEST_CASE("a format is one header and one row") {
  const std::string rows = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/quant/formats.def");
  std::set<std::string> named, present;
  for (std::string name : matches(rows, R"(\nRIDGE_FORMAT\((\w+),)")) {
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    named.insert(name);
  }
  for (const Source& source : sources("quant/formats"))
    if (matches(source.text, R"re((static_assert\(sizeof))re").size() == 1) present.insert(source.path.stem());
  CHECK(named == present);
}

TEST_CASE("an architecture is one row, and one object of a file named like its first") {
  const std::string rows = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/models/arches.def");
  std::set<std::string> named, present;
  for (const std::string& name : matches(rows, R"re(\nRIDGE_ARCH\("[^"]+", (\w+))re")) named.insert(name);
  for (const Source& source : sources("models/arch")) {
    const std::vector<std::string> own = matches(source.text, R"re(const ArchitectureFile arch::(\w+))re");
    CHECK_MESSAGE((!own.empty() && own[0] == source.path.stem()), source.path, " begins with another architecture");
    CHECK_MESSAGE(source.text.find("architecture() == \"") == std::string::npos, source.path,
                  " compares names: make an object of each");
    present.insert(own.begin(), own.end());
  }
  CHECK(named == present);
}

TEST_CASE("a projector of pictures is one row and one file") {
  const std::string rows = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/models/vision/projectors.def");
  std::set<std::string> named, present;
  for (const std::string& name : matches(rows, R"re(\nRIDGE_PROJECTOR\("[^"]+", (\w+))re")) named.insert(name);
  for (const Source& source : sources("models/vision/projectors")) present.insert(source.path.stem());
  CHECK(!named.empty());
  CHECK(named == present);
}

TEST_CASE("an op is one row and one file in each folder of ops") {
  const std::string rows = tests::read_file(std::string(RIDGE_SOURCE_DIR) + "/core/ops.def");
  std::set<std::string> named;
  for (const std::string& name : matches(rows, R"(\nRIDGE_OP\((\w+),)")) named.insert(name);
  REQUIRE(!named.empty());
  for (const char* folder : {"kernels/cpu/ops", "tests/oracle"}) {
    CAPTURE(folder);
    std::set<std::string> present;
    for (const Source& source : sources(folder)) present.insert(source.path.stem());
    CHECK(named == present);
  }
}

// The executor launches products and attention itself (launches.cpp, launch_products.cpp), because their kernels depend
// on format and batch size.
TEST_CASE("a plain op is one file of CUDA's ops, which defines its launcher") {
  const std::string root = RIDGE_SOURCE_DIR;
  std::map<std::string, std::string> class_of;
  const std::regex row(R"(\nRIDGE_OP\((\w+),.*, (\w+), \d+\))");
  const std::string rows = tests::read_file(root + "/core/ops.def");
  for (auto it = std::sregex_iterator(rows.begin(), rows.end(), row); it != std::sregex_iterator(); ++it)
    class_of[(*it)[1]] = (*it)[2];
  REQUIRE(class_of.size() == matches(rows, R"re((\nRIDGE_OP\())re").size());

  const std::string table = tests::read_file(root + "/kernels/cuda/ops/op_table.cpp");
  std::set<std::string> plain_classes, plain;
  for (const std::string& name : matches(table, R"re(#define RIDGE_PLAIN_(\w+)\(what, name\) what\(name\))re"))
    plain_classes.insert(name);
  for (const auto& [name, op_class] : class_of)
    if (plain_classes.contains(op_class)) plain.insert(name);
  REQUIRE(!plain.empty());

  std::set<std::string> launched;
  for (const char* folder : {"kernels/cuda/ops", "kernels/cuda/recurrent", "kernels/cuda/attention",
                             "kernels/cuda/router", "kernels/cuda/formats"})
    for (const Source& source : sources(folder))
      for (const std::string& name :
           matches(source.text, R"re(\nvoid launch_(\w+)\(const Launch& \w+, const OpCall& )re")) {
        CHECK_MESSAGE(source.path.stem() == name, source.path, " launches another op than its name says: ", name);
        launched.insert(name);
      }
  CHECK(launched == plain);
}
