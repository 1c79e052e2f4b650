// Tables, order of names, completions.
#include "app/report/table.h"
#include "app/terminal/completions.h"
#include "core/strings/natural_order.h"
#include "core/strings/utf8.h"
#include "support/temporary_folder.h"

#include <algorithm>
#include <sstream>

using namespace ridge;
using app::Table;

namespace {

const std::vector<app::TableColumn> kTableColumns = {{"NAME", false, true, 0, 60},
                                                     {"SIZE", true, false, 0, 9},
                                                     {"FROM", false, true, 2, 30},
                                                     {"CONTEXT", true, false, 1, 7}};
const std::vector<std::string> kTableRow = {std::string(30, 'a') + std::string(30, 'z'), "1.23 GB", "Hugging Face: o/r",
                                            "8192"};

} // namespace

TEST_CASE("a table is as wide as the terminal at most: texts are cut, then columns left out by rank") {
  for (int columns = 24; columns <= 140; ++columns) {
    const Table table(kTableColumns, columns);
    for (const std::string& line : {table.title(), table.row(kTableRow)})
      CHECK_MESSAGE(core::utf8_length(line) - 1 <= static_cast<size_t>(columns), columns, ": ", line);
    CHECK(table.row(kTableRow).find("1.23 GB") != std::string::npos);
  }
  CHECK(Table(kTableColumns, 200).row(kTableRow).find("Hugging Face: o/r") != std::string::npos);
  CHECK(Table(kTableColumns, 0).row(kTableRow).find(kTableRow[0]) != std::string::npos);
  const std::string narrow = Table(kTableColumns, 50).row(kTableRow);
  CHECK(narrow.find("Hugging") == std::string::npos);
  CHECK(narrow.find("8192") != std::string::npos);
  CHECK(narrow.find("a…z") != std::string::npos);
}

TEST_CASE("an abbreviation keeps the beginning and the end, in whole characters") {
  CHECK(app::abbreviated("abcdefghij", 10) == "abcdefghij");
  CHECK(app::abbreviated("abcdefghijk", 10) == "abcde…hijk");
  CHECK(app::abbreviated("äöüäöüäöü", 5) == "äö…öü");
}

TEST_CASE("numbers in names count as numbers") {
  std::vector<std::string> names = {"blk.10.a", "blk.2.b", "blk.2.a", "output", "blk.1", "blk", "a01", "a1"};
  std::ranges::sort(names, core::natural_less);
  CHECK(names == std::vector<std::string>{"a01", "a1", "blk", "blk.1", "blk.2.a", "blk.2.b", "blk.10.a", "output"});
}

TEST_CASE("what Tab offers: what begins so, and paths as they are typed") {
  const std::vector<std::string> words = {"/save", "/set", "/stats"};
  CHECK(app::completions_of("/s", 0, words).words == words);
  CHECK(app::completions_of("say /se", 4, words).words == std::vector<std::string>{"/set"});
  CHECK(app::common_start(words) == "/s");
  CHECK(app::common_start(std::vector<std::string>{"äb", "äc"}) == "ä");
  CHECK(app::common_start({}) == "");
  const tests::TemporaryFolder folder;
  folder.write("one two.txt", "");
  folder.write(".hidden", "");
  folder.write("steer\033.txt", "");
  std::filesystem::create_directory(folder / "inner");
  const std::string typed = "/read " + folder.path() + "/";
  CHECK(app::path_completions(typed, 6, false).words ==
        std::vector<std::string>{folder / "inner/", folder / "one two.txt"});
  CHECK(app::path_completions(typed + "one\\ ", 6, true).words == std::vector<std::string>{folder / "one\\ two.txt"});
  CHECK(app::path_completions(typed + ".h", 6, false).words == std::vector<std::string>{folder / ".hidden"});
  CHECK(app::path_completions("/no/such/", 0, false).words.empty());
  CHECK(app::in_columns(words, 80) == "/save   /set    /stats\n");
  CHECK(app::in_columns(words, 9) == "/save\n/set\n/stats\n");
}
