// Whose files are loaded: every rule about owners and modes, on made-up files, and pins on real ones.

#include "plugin/trust.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>

#include "plugin/file.h"
#include "plugin/sha256.h"
#include "tests/plugin/files.h"

namespace reshard::plugin {
namespace {

constexpr uid_t kMe = 400001, kOther = 400002, kNobody = 65534;

// /people/me/build/mine.so, all mine and 0755 but what a test changes.
class Owners : public testing::Test {
 protected:
  Owners() {
    users_.self = users_.program = kMe;
    users_.name = "me";
    for (const char* path : {"/", "/people"}) files_[path] = {0, 0, S_IFDIR | 0755, "root"};
    for (const char* path : {"/people/me", "/people/me/build"}) files_[path] = {kMe, kMe, S_IFDIR | 0755, "me"};
    files_["/people/me/build/mine.so"] = {kMe, kMe, S_IFREG | 0755, "me"};
  }

  // "ID: WHAT (REMEDY)", or "" where the file is trusted.
  std::string doubt() const {
    const auto found = doubt_of_owner("/people/me/build/mine.so", users_,
                                      [&](const std::filesystem::path& path) { return files_.at(path.string()); });
    return found ? found->id + ": " + found->what + " (" + found->remedy + ")" : "";
  }

  Users users_;
  std::map<std::string, Owned> files_;
};

TEST_F(Owners, MineAndRootsAreTrusted) {
  EXPECT_EQ(doubt(), "");
  files_["/people/me/build/mine.so"].owner = 0;
  EXPECT_EQ(doubt(), "");
}

TEST_F(Owners, AnotherUsersFileOrFolderIsNot) {
  for (const char* path : {"/people/me/build/mine.so", "/people/me", "/"}) {
    const Owned before = files_[path];
    files_[path].owner = kOther;
    EXPECT_TRUE(doubt().starts_with("trust.owner: ")) << path << ": " << doubt();
    EXPECT_NE(doubt().find("belongs to user 400002; this is user 400001 (run `chown 400001 " + std::string(path) +
                           "`, or write trust = \"any\" in [plugins])"),
              std::string::npos)
        << doubt();
    files_[path] = before;
  }
}

// As root over a checkout that is somebody else's: the program that runs is theirs, too.
TEST_F(Owners, TheProgramsOwnerIsTrusted) {
  users_.self = 0;
  users_.name = "root";
  EXPECT_EQ(doubt(), "");
  users_.program = 0;
  EXPECT_TRUE(doubt().starts_with("trust.owner: belongs to user 400001; this is user root (0) (run `chown 0 ")) << doubt();
}

TEST_F(Owners, NobodyElseMayWriteButIntoAStickyFolder) {
  files_["/people/me/build/mine.so"].mode = S_IFREG | 0757;
  EXPECT_EQ(doubt(),
            "trust.writable: may be written by every user (mode 0757) (run `chmod o-w /people/me/build/mine.so`, or write "
            "trust = \"any\" in [plugins])");
  files_["/people/me/build/mine.so"].mode = S_IFREG | 0755;
  files_["/people"].mode = S_IFDIR | 0777;
  EXPECT_EQ(doubt(),
            "trust.writable: lies below /people, which may be written by every user (mode 0777) (run `chmod o-w /people`, or "
            "write trust = \"any\" in [plugins])");
  files_["/people"].mode = S_IFDIR | S_ISVTX | 0777;  // as /tmp is
  EXPECT_EQ(doubt(), "");
  files_["/people/me/build/mine.so"].mode = S_IFREG | S_ISVTX | 0757;  // says nothing for a file
  EXPECT_NE(doubt(), "");
}

TEST_F(Owners, AGroupMayWriteThatIsRootsOrTheUsersOwn) {
  for (const char* path : {"/people/me/build/mine.so", "/people/me/build"}) {
    const Owned before = files_[path];
    files_[path].mode |= S_IWGRP;
    EXPECT_EQ(doubt(), "") << path;
    files_[path].group = 0, files_[path].group_name = "root";
    EXPECT_EQ(doubt(), "") << path;
    files_[path].group = 50, files_[path].group_name = "staff";
    EXPECT_NE(doubt().find("may be written by the group staff (mode 0775) (run `chmod g-w " + std::string(path) + "`"),
              std::string::npos)
        << doubt();
    files_[path] = before;
  }
}

// In a user namespace the folders of the system belong to nobody; what nobody else may write is still fine.
TEST_F(Owners, AContainersUnmappedFoldersAreTheSystems) {
  files_["/"].owner = files_["/people"].owner = kNobody;
  EXPECT_NE(doubt(), "");
  users_.namespaced = true;
  EXPECT_EQ(doubt(), "");
  files_["/people"].mode |= S_IWOTH;
  EXPECT_NE(doubt(), "");
}

// The loader's own path, on a file of this machine.
TEST(Trust, AFileThatOthersMayWriteIsRefusedUnlessAnyIsTrusted) {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("zero3.so", tests::read_bytes(tests::shipped("zero3")));
  EXPECT_EQ(tests::error_text([&] { inspect(path); }), "no error");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(tests::error_text([&] { inspect(path); }),
            "plugin: plugin " + path + ": may be written by every user (mode 0666) (run `chmod o-w " + path +
                "`, or write trust = \"any\" in [plugins]) [trust.writable]");
  Job::Plugins rules;
  rules.trust = "any";
  EXPECT_EQ(tests::error_text([&] { inspect(path, rules); }), "no error");
}

TEST(Trust, PinsSayWhichBytes) {
  EXPECT_EQ(sha256(std::string("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2
  const std::string path = tests::shipped("zero3"), other = std::string(64, 'a');
  const std::string real = sha256(tests::read_bytes(path));
  const auto refusal = [&](const Job::Plugins& rules) { return tests::error_text([&] { inspect(path, rules); }); };
  Job::Plugins rules;
  rules.pins = {{"zero2", other, ""}};
  EXPECT_EQ(refusal(rules), "no error") << "another strategy's pin says nothing";
  rules.pins.push_back({"zero3", other, "job.toml:9:1"});
  EXPECT_EQ(refusal(rules), "plugin: plugin " + path + ": has the sha256 " + real +
                                ", but its pin at job.toml:9:1 says " + other +
                                " (find out who replaced it; if you did, pin it anew (plugins pin NAME)) [trust.pin]");
  rules.pins.push_back({"zero3", real, "job.toml:12:1"});
  EXPECT_EQ(refusal(rules), "no error") << "any of several";
  rules.pins.clear();
  rules.trust = "pinned";
  EXPECT_EQ(refusal(rules), "plugin: plugin " + path +
                                ": has no pin, and [plugins] trust = \"pinned\" (add [[plugins.pin]] with name = \"zero3\" "
                                "and sha256 = \"" +
                                real + "\" once you trust it) [trust.no-pin]");
  rules.pins = {{"zero3", real, ""}};
  EXPECT_EQ(refusal(rules), "no error");
}

}  // namespace
}  // namespace reshard::plugin
