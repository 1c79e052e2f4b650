#include "core/parallel/processes/secret.h"

#include "core/error.h"
#include "core/files/private_folder.h"
#include "core/files/read_file.h"
#include "core/files/sha256.h"
#include "core/files/xdg.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

namespace ridge::core {
namespace {

constexpr size_t kMinCharacters = 16;
constexpr const char* kHowToSet =
    "set RIDGE_RANK_SECRET, or RIDGE_RANK_SECRET_FILE, to the same for every rank, such as "
    "what `openssl rand -hex 32` prints";

const char* environment(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

std::string checked(std::string secret, const char* from) {
  if (secret.size() < kMinCharacters)
    throw Error(
        fmt::format("{}: expected at least {} characters that nobody can guess: {}", from, kMinCharacters, kHowToSet),
        Error::kUsage);
  return secret;
}

std::string trimmed(std::string text) {
  constexpr const char* kSpace = " \t\r\n";
  text.erase(text.find_last_not_of(kSpace) + 1);
  text.erase(0, text.find_first_not_of(kSpace));
  return text;
}

[[noreturn]] void fail_file(const std::string& path, const char* what) {
  throw_error("the ranks' secret {}: {}: {}; or {}", path, what, std::strerror(errno), kHowToSet);
}

// Writes, then links, so that the first of concurrent processes wins.
void make_secret_file(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return;
  std::error_code ignored;
  core::create_private_folders(std::filesystem::path(path).parent_path().string(), ignored);
  std::string name = path + ".XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC); // mode 0600
  if (file < 0) fail_file(path, "cannot be made");
  std::string secret;
  for (const std::byte byte : random_challenge()) secret += fmt::format("{:02x}", static_cast<unsigned>(byte));
  const bool good = ::write(file, secret.data(), secret.size()) == std::ssize(secret) && ::fsync(file) == 0 &&
                    (::link(name.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int reason = errno;
  ::close(file);
  ::unlink(name.c_str());
  errno = reason;
  if (!good) fail_file(path, "cannot be made");
}

std::string read_secret_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) fail_file(path, "cannot be read");
  struct stat info;
  const bool known = ::fstat(file, &info) == 0;
  std::string secret(4096, 0);
  const ssize_t bytes = known && S_ISREG(info.st_mode) ? ::read(file, secret.data(), secret.size()) : 0;
  ::close(file);
  if (!known || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0 || bytes < 32)
    throw_error("the ranks' secret {}: is no file with a secret that only its user can read; remove it", path);
  secret.resize(static_cast<size_t>(bytes));
  return secret;
}

} // namespace

Challenge random_challenge() {
  Challenge challenge;
  if (::getrandom(challenge.data(), challenge.size(), 0) != std::ssize(challenge)) // up to 256 bytes are whole
    throw_error("the kernel gives no random numbers: {}", std::strerror(errno));
  return challenge;
}

Mac hmac_sha256(std::string_view key, std::initializer_list<std::span<const std::byte>> parts) {
  std::array<std::byte, Sha256::kBlockBytes> inner = {}, outer;
  if (key.size() > inner.size()) {
    const Mac digest = Sha256().add(key).digest();
    std::memcpy(inner.data(), digest.data(), digest.size());
  } else {
    std::memcpy(inner.data(), key.data(), key.size());
  }
  outer = inner;
  for (std::byte& byte : inner) byte ^= std::byte{0x36};
  for (std::byte& byte : outer) byte ^= std::byte{0x5c};
  Sha256 hash, second;
  hash.add(inner);
  for (const auto part : parts) hash.add(part);
  return second.add(outer).add(hash.digest()).digest();
}

bool same(const Mac& a, const Mac& b) {
  volatile std::byte differences{}; // volatile prevents early exits
  for (size_t i = 0; i < a.size(); ++i) differences = differences | (a[i] ^ b[i]);
  return differences == std::byte{};
}

std::string find_rank_secret(bool one_host) {
  if (const char* text = environment("RIDGE_RANK_SECRET")) return checked(text, "RIDGE_RANK_SECRET");
  if (const char* path = environment("RIDGE_RANK_SECRET_FILE"))
    return checked(trimmed(read_text_file(path)), "RIDGE_RANK_SECRET_FILE");
  if (!one_host)
    throw Error(
        fmt::format("ranks of several hosts have to know a secret, so that no stranger takes part: {}", kHowToSet),
        Error::kUsage);
  const std::string folder = cache_folder();
  if (folder.empty()) throw_error("no home folder for the ranks' secret: {}", kHowToSet);
  const std::string path = folder + "/rank-secret";
  make_secret_file(path);
  return read_secret_file(path);
}

} // namespace ridge::core
