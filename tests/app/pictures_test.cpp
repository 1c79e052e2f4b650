// Commands with media.
#include "app/support.h"
#include "app/terminal/typed_pictures.h"
#include "support/numerics.h"
#include "support/recipes/vision_case.h"
#include "support/recipes/vision_files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

using namespace ridge;
using namespace ridge::tests;

using Files = VisionFiles;

TEST_CASE("ridge embed and ridge logits write what the reference has of pictures") {
  REQUIRE_REFERENCE();
  for (const char* name : {"gemma3", "qwen3vl-deep"}) {
    CAPTURE(name);
    const VisionCase c(name);
    const Files files(c);
    const std::string out = files.own / "out.npy";
    const Result embedded = run_ridge({"embed", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image,
                                       "--pooling", "none", "--out", out, "--exact"});
    REQUIRE_MESSAGE(embedded.status == 0, embedded.err);
    CHECK(nmse(floats_of_npy(out), c.embeddings()) < 5e-6);
    const Result logits = run_ridge({"logits", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image,
                                     "-p", c.prompt(), "--out", out, "--exact"});
    REQUIRE_MESSAGE(logits.status == 0, logits.err);
    CHECK(nmse(floats_of_npy(out), c.logits()) < 5e-6);
    const Result lines = run_ridge({"embed", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image});
    CHECK(lines.status == 0);
    CHECK(lines.out.find("\"tokens\":") != std::string::npos);
  }
}

TEST_CASE("the commands that take pictures take sounds, too") {
  REQUIRE_REFERENCE();
  const VisionCase c("qwen3a");
  const Files files(c);
  const std::string out = files.own / "out.npy";
  const Result embedded =
      run_ridge({"embed", "-m", files.model, "--audio", files.image, "--pooling", "none", "--out", out, "--exact"});
  REQUIRE_MESSAGE(embedded.status == 0, embedded.err);
  CHECK(nmse(floats_of_npy(out), c.embeddings()) < 5e-6);
  const Result logits =
      run_ridge({"logits", "-m", files.model, "--audio", files.image, "-p", c.prompt(), "--out", out, "--exact"});
  REQUIRE_MESSAGE(logits.status == 0, logits.err);
  CHECK(nmse(floats_of_npy(out), c.logits()) < 5e-6);
  const Result ran = run_ridge({"run", "-m", files.model, "--audio", files.image, "-p", "what?", "-n", "2"});
  CHECK_MESSAGE(ran.status == 0, ran.err);
  CHECK(ran.err.find("2.0 seconds, 39 tokens]") != std::string::npos);
  const std::string saved = files.own / "saved.json";
  const Result chat =
      run_ridge({"chat", "-m", files.model, "-n", "2"}, "/audio " + files.image + "\nwhat?\n/audio none.wav\n/save " +
                                                            saved + "\n/clear\n/load " + saved + "\n/exit\n");
  CHECK(chat.err.find("none.wav") != std::string::npos);
  CHECK(ridge::app::typed_pictures("what is in " + files.image + "?").size() == 1);
  CHECK(read_file(saved).find("\"type\": \"input_audio\"") != std::string::npos);
  CHECK_MESSAGE(chat.err.find("[loaded 2 messages]") != std::string::npos, chat.err);
  const Result blind =
      run_ridge({"run", "-m", files.model, "--image", files.own.write("cat.ppm", "P6 1 1 255\nabc"), "-p", "what?"});
  CHECK(blind.status == 1);
  CHECK(blind.err.find("has no image encoder") != std::string::npos);
  const Result bench =
      run_ridge({"bench", "-m", files.model, "--audio", "9.5", "--device", "cpu", "-r", "1", "--json"});
  REQUIRE_MESSAGE(bench.status == 0, bench.err);
  const auto row = nlohmann::json::parse(bench.out)["pictures"][0];
  CHECK(row["sound_seconds"] == 9.5);
  CHECK(row["tokens"] == 130);
  const Result seen = run_ridge({"inspect", files.mmproj});
  CHECK(seen.out.find("an audio encoder for Qwen3-ASR") != std::string::npos);
  const Result fit = run_ridge({"fit", "-m", files.model, "--device", "cpu"});
  CHECK_MESSAGE(fit.out.find("30 seconds of audio") != std::string::npos, fit.out);
}

TEST_CASE("a file with encoders of both takes pictures and sounds in one prompt") {
  REQUIRE_REFERENCE();
  const VisionCase c("gemma4-both-sound");
  const Files files(c), others(VisionCase("gemma3"));
  const Result ran = run_ridge({"run", "-m", files.model, "--mmproj", files.mmproj, "--image", others.image, "--audio",
                                files.image, "--image", others.image, "-p", "what?", "-n", "2"});
  CHECK_MESSAGE(ran.status == 0, ran.err);
  const size_t picture = ran.err.find("pixels"), sound = ran.err.find("seconds");
  CHECK(picture < sound);
  CHECK(ran.err.rfind("pixels") > sound); // command-line order
  CHECK(ran.err.rfind("pixels") != std::string::npos);
}

TEST_CASE("ridge bench says what a picture costs, and where the encoder's time goes") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("qwen3vl-deep"));
  std::vector<std::string> args = {"bench", "-m",       files.model, "--mmproj", files.mmproj, "--image",
                                   "96x64", "--device", "cpu",       "-r",       "1"};
  const Result table = run_ridge(args);
  REQUIRE_MESSAGE(table.status == 0, table.err);
  CHECK(table.out.find("first token") != std::string::npos);
  CHECK(table.out.find("encoder: one step") == std::string::npos);
  args.insert(args.end(), {"--profile", "--json"});
  const Result profiled = run_ridge(args);
  REQUIRE_MESSAGE(profiled.status == 0, profiled.err);
  const auto row = nlohmann::json::parse(profiled.out)["pictures"][0];
  CHECK(row["encoder_seconds"] > 0);
  CHECK(row["tokens"].get<int64_t>() * 4 == row["patches"]);
  REQUIRE(row["profiles"].size() == 2); // patches, merged patches
  const auto& ops = row["profiles"][0]["ops"];
  const auto attends = [](const auto& op) { return op["ops"] == "v.attention"; };
  CHECK(std::ranges::count_if(ops, attends) > 1);
  for (const auto& op : ops) CHECK(op["seconds"] > 0);
}

TEST_CASE("ridge inspect says of an encoder's file what it is for") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const Result seen = run_ridge({"inspect", files.mmproj});
  CHECK(seen.status == 0);
  CHECK_MESSAGE(seen.out.find("an image encoder for Gemma 3: pass it to run, chat or serve with --mmproj") !=
                    std::string::npos,
                seen.out);
}

TEST_CASE("ridge run and ridge chat answer to pictures, and find the encoder beside the model") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const Result ran = run_ridge(
      {"run", "-m", files.model, "--image", files.image, "--image", files.image, "-p", "a cat", "-n", "2", "--json"});
  REQUIRE_MESSAGE(ran.status == 0, ran.err);
  CHECK(ran.err.find("mmproj.gguf") != std::string::npos);
  CHECK(ran.err.find("16 tokens]") != std::string::npos);
  const Result chat = run_ridge({"chat", "-m", files.model, "--mmproj", files.mmproj, "-n", "2"},
                                "/image " + files.image + "\na cat\n/image none.png\n/undo\n/exit\n");
  CHECK(chat.err.find("16 tokens]") != std::string::npos);
  CHECK(chat.err.find("none.png") != std::string::npos);
}

TEST_CASE("a chat opens the encoder beside the model with the first picture, and not before") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const auto chat = [&](const std::string& input, std::vector<std::string> extra = {}) {
    std::vector<std::string> args = {"chat", "-m", files.model, "-n", "2"};
    args.insert(args.end(), extra.begin(), extra.end());
    return run_ridge(args, input);
  };
  const auto says = [](const Result& result, const std::string& text) {
    return result.err.find(text) != std::string::npos;
  };
  CHECK_FALSE(says(chat("a\n"), "images"));
  const Result seen = chat("a\n/system be brief\n/image " + files.image + "\nand this?\n/stats\n");
  CHECK_MESSAGE(seen.status == 0, seen.err);
  CHECK(says(seen, "the encoder is "));
  CHECK(says(seen, "16 tokens]"));
  CHECK(seen.out.find(", 5 messages") != std::string::npos);
  CHECK(says(chat("/image " + files.image + "\na\n", {"--mmproj", "none"}), "started with --mmproj none"));
  CHECK(chat("a\n", {"--mmproj", files.model}).status != 0);

  std::filesystem::rename(files.mmproj, files.own / "mmproj-a.gguf");
  std::filesystem::copy_file(files.own / "mmproj-a.gguf", files.own / "mmproj-b.gguf");
  const Result either = chat("/image " + files.image + "\na\n");
  CHECK(says(either, "several encoders match: " + files.own / "mmproj-a.gguf or " + files.own / "mmproj-b.gguf"));
  std::filesystem::rename(files.own / "mmproj-b.gguf", files.own / "mmproj-model-q8_0.gguf");
  CHECK(says(chat("/image " + files.image + "\na\n"), "the encoder is " + files.own / "mmproj-model-q8_0.gguf"));
  const Files wider(VisionCase("qwen3vl-deep"));
  std::filesystem::copy_file(wider.mmproj, files.own / "mmproj-model-q8_0.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  const Result refused = chat("/image " + files.image + "\na\n/stats\n");
  CHECK(says(refused, "do not belong together"));
  CHECK(refused.out.find(", 2 messages") != std::string::npos);
}

TEST_CASE("pictures that are dropped into the line become pictures, and other text stays text") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const std::string image = read_file(files.image), spaced = files.own.write("my 'best' cat.ppm", image),
                    notes = files.own.write("notes.txt", "no image");
  const auto found = [](const std::string& line) {
    std::string text = line;
    const auto pictures = ridge::app::typed_pictures(line);
    for (size_t i = pictures.size(); i-- > 0;)
      text.replace(pictures[i].begin, pictures[i].end - pictures[i].begin, "[" + pictures[i].path + "]");
    return text;
  };
  const std::string path = files.image, folder = files.own.path(), best = "[" + spaced + "]", cat = "[" + path + "]";
  CHECK(found("what is " + path + "?") == "what is " + cat + "?");
  CHECK(found(path + " " + path) == cat + " " + cat);
  CHECK(found("'" + path + "' here") == cat + " here");
  CHECK(found("file://" + path) == cat);
  CHECK(found("file://localhost" + path + ".") == cat + ".");
  CHECK(found("see file://" + folder + "/my%20%27best%27%20cat.ppm") == "see " + best);
  CHECK(found(spaced) == best);
  CHECK(found("see " + folder + "/my\\ \\'best\\'\\ cat.ppm") == "see " + best);
  CHECK(found("see '" + folder + "/my '\\''best'\\'' cat.ppm' now") == "see " + best + " now");
  CHECK(found("see \"" + spaced + "\" now") == "see " + best + " now");
  CHECK(found("it isn't " + path) == "it isn't " + cat);
  for (const std::string& text :
       {notes, path + ".gone", folder, std::string("cat.ppm"), std::string("/dev/zero"), "file://elsewhere" + path,
        "file://" + folder + "/%00", std::string("file:///%"), std::string("'"), std::string("/"), std::string("~/"),
        std::string("a / b"), std::string()})
    CHECK(found(text) == text);

  Terminal chat({RIDGE_BINARY, "chat", "-m", files.model, "-n", "2", "-t", "1"},
                {{"TERM", "xterm"}, {"XDG_STATE_HOME", files.own / "state"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}},
                200);
  REQUIRE(chat.expect("> "));
  chat.type("about " + notes + "\r");
  REQUIRE(chat.expect("· context "));
  chat.type("\033[200~'" + path + "'\033[201~ \r");
  CHECK(chat.expect("16 tokens]"));
  CHECK(chat.expect("[will be sent with your next message]"));
  chat.type("and now?\r");
  REQUIRE(chat.expect("· context "));
  chat.type("is " + path + " a cat?\r");
  CHECK(chat.expect("16 tokens]"));
  REQUIRE(chat.expect("· context "));
  chat.type("/save " + (files.own / "talk.json") + "\r");
  REQUIRE(chat.expect("[saved 6 messages"));
  chat.type("/load " + (files.own / "talk.json") + "\r");
  CHECK(chat.expect("16 tokens]"));
  REQUIRE(chat.expect("[loaded 6 messages]"));
  chat.type("/regen\r");
  REQUIRE(chat.expect("· context "));
  chat.type("/save " + (files.own / "again.json") + "\r");
  REQUIRE(chat.expect("[saved 6 messages"));
  chat.type("/absent\r");
  CHECK(chat.expect("unknown command /absent"));

  const auto saved = [&](const char* name) { return nlohmann::json::parse(read_file(files.own / name))["messages"]; };
  const auto messages = saved("talk.json");
  CHECK(messages[0]["content"] == "about " + notes);
  CHECK(messages[2]["content"][1]["text"] == "and now?");
  REQUIRE(messages[4]["content"].size() == 3);
  CHECK(messages[4]["content"][0]["text"] == "is ");
  const std::string url = messages[4]["content"][1]["image_url"]["url"];
  CHECK(url.starts_with("data:image/x-portable-pixmap;base64,"));
  CHECK(messages[4]["content"][2]["text"] == " a cat?");
  CHECK(saved("again.json")[4] == messages[4]);

  // A chat that opens its encoder; one without.
  const Result loaded =
      run_ridge({"chat", "-m", files.model, "-n", "2"}, "/load " + (files.own / "talk.json") + "\n/regen\n");
  CHECK_MESSAGE(loaded.status == 0, loaded.err);
  const Result none = run_ridge({"chat", "-m", files.model, "-n", "2", "--mmproj", "none"},
                                "/load " + (files.own / "talk.json") + "\n/image " + path + "\n");
  CHECK(none.err.find("started with --mmproj none") != std::string::npos);
  files.own.write("odd.json",
                  R"([{"role": "user", "content": [{"type": "image_url", "image_url": "http://x/a.png"}]}])");
  const Result odd = run_ridge({"chat", "-m", files.model, "-n", "2"}, "/load " + (files.own / "odd.json") + "\n");
  CHECK(odd.err.find("[0].content[0].image_url: this is an address; chat does not download images") !=
        std::string::npos);

  Terminal blind({RIDGE_BINARY, "chat", "-m", files.model, "-n", "2", "-t", "1", "--mmproj", "none"},
                 {{"TERM", "xterm"}, {"XDG_STATE_HOME", files.own / "state"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", "1"}},
                 200);
  REQUIRE(blind.expect("> "));
  blind.type(path + "\r");
  CHECK(blind.expect("takes no images"));
  blind.type("is " + path + " a cat?\r");
  CHECK(blind.expect("is sent as text"));
  CHECK(blind.expect("· context "));
}

TEST_CASE("ridge models and ridge fit know which model has an encoder") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  std::filesystem::create_directories(files.own / "models/plain");
  std::filesystem::rename(files.model, files.own / "models/seer.gguf");
  std::filesystem::rename(files.mmproj, files.own / "models/mmproj-f16.gguf");
  std::filesystem::copy_file(files.own / "models/seer.gguf", files.own / "models/plain/other.gguf");
  const auto ridge = [&](const std::vector<std::string>& args) {
    std::vector<std::string> all = {"env", "-i", "HOME=" + files.own.path(), "PATH=/usr/bin:/bin", RIDGE_BINARY};
    all.insert(all.end(), args.begin(), args.end());
    const Result result = run(all);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const auto list = nlohmann::json::parse(ridge({"models", "--json"}))["models"];
  REQUIRE(list.size() == 2);
  CHECK(list[0]["pictures"] == false);
  CHECK(list[1]["name"] == "seer");
  CHECK(list[1]["pictures"] == true);
  CHECK(list[1]["mmproj"].get<std::string>() == files.own / "models/mmproj-f16.gguf");
  CHECK(ridge({"models"}).find("TAKES") != std::string::npos);

  const auto bytes = [&](const char* model, std::vector<std::string> more) {
    more.insert(more.begin(), {"fit", "-m", model, "--json"});
    const auto fit = nlohmann::json::parse(ridge(more));
    return std::pair(fit["pictures_weight_bytes"].get<int64_t>(), fit["pictures_scratch_bytes"].get<int64_t>());
  };
  CHECK(bytes("seer", {}).first > 10'000);
  CHECK(bytes("seer", {}).second > 10'000);
  CHECK(bytes("seer", {"--mmproj", "none"}).first == 0);
  CHECK(bytes("other", {}).first == 0);
  CHECK(ridge({"fit", "-m", "seer"}).find("images ") != std::string::npos);
}

TEST_CASE("commands say what is wrong with pictures") {
  REQUIRE_REFERENCE();
  const Files files(VisionCase("gemma3"));
  const auto refusal = [&](std::vector<std::string> arguments) {
    const Result result = run_ridge(arguments);
    CHECK(result.status != 0);
    return result.err;
  };
  const std::string text = files.own.write("text.png", "this is text");
  CHECK(refusal({"run", "-m", files.model, "--image", text, "-p", "x"}).find("not a supported image") !=
        std::string::npos);
  CHECK(refusal({"run", "-m", files.model, "--image", files.image, "-p", "x", "--spec", "mtp"}).find("no draft head") !=
        std::string::npos);
  CHECK(refusal({"run", "-m", files.model, "--mmproj", files.model, "-p", "x"}).find("expected 'clip'") !=
        std::string::npos);
  CHECK(refusal({"logits", "-m", files.model, "--mmproj", files.mmproj, "--image", files.image, "-p", "no mark",
                 "--out", files.own / "out.npy"})
            .find("there are 1 images") != std::string::npos);
  const Files wider(VisionCase("qwen3vl-deep"));
  CHECK(refusal({"run", "-m", files.model, "--mmproj", wider.mmproj, "-p", "x"}).find("do not belong together") !=
        std::string::npos);
  std::filesystem::remove(files.mmproj);
  CHECK(refusal({"run", "-m", files.model, "--image", files.image, "-p", "x"})
            .find("no mmproj*.gguf for the model next to") != std::string::npos);
}
