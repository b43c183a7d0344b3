#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/pickle.h"
#include "kinema/io/pickle_file.h"
#include "kinema/io/safetensors.h"

namespace kinema::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::span<const std::byte> pickle_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// The same tensors, bit for bit.
void expect_equal(const TensorFile& found, const TensorFile& wanted) {
  EXPECT_EQ(found.tensors().size(), wanted.tensors().size());
  for (const TensorView& each : wanted.tensors()) {
    SCOPED_TRACE(each.name);
    const TensorView* tensor = found.find(each.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shape, each.shape);
    EXPECT_EQ(tensor->copy().bytes, each.copy().bytes);
  }
}

// Written by torch and numpy, with the same tensors as safetensors (tools/golden/make_pickles.py).
TEST(Pickle, HoldsWhatTorchSaved) {
  const SafetensorsFile wanted = SafetensorsFile::open(golden("pickles/torch.safetensors"));
  const PickleFile zip = PickleFile::open(golden("pickles/checkpoint.ckpt"));
  expect_equal(zip, wanted);
  EXPECT_EQ(zip.metadata().at("global_step"), "1200");
  EXPECT_EQ(zip.metadata().at("note"), "a text");
  expect_equal(PickleFile::open(golden("pickles/old.pth")), wanted);
}

TEST(Pickle, HoldsWhatNumpySaved) {
  const SafetensorsFile wanted = SafetensorsFile::open(golden("pickles/numpy.safetensors"));
  for (const char* protocol : {"0", "2", "3", "4", "5"}) {
    SCOPED_TRACE(protocol);
    const PickleFile file =
        PickleFile::open(golden(std::string("pickles/agent_") + protocol + ".pkl"));
    expect_equal(file, wanted);
    EXPECT_EQ(file.metadata().at("counters.updates"), "7");
    EXPECT_EQ(file.metadata().at("counters.actions"), "1099511627776");
  }
}

TEST(Pickle, ContiguousTensorsAreMappedAndNotCopied) {
  const std::string all = text_of(golden("pickles/checkpoint.ckpt"));
  const PickleFile file = PickleFile::parse(pickle_bytes(all), "checkpoint.ckpt");
  const auto is_inside = [&](const TensorView& tensor) {
    const auto* data = reinterpret_cast<const char*>(tensor.bytes.data());
    return data >= all.data() && data + tensor.bytes.size() <= all.data() + all.size();
  };
  EXPECT_TRUE(is_inside(file.at("float32")));
  EXPECT_TRUE(is_inside(file.at("shared.rows")));
  EXPECT_EQ(file.at("shared.rows").bytes.data(), file.at("shared.whole").bytes.data() + 6 * 4);
  EXPECT_FALSE(is_inside(file.at("shared.transposed")));
}

TEST(Pickle, RefusesOtherNamesAndRunsNothing) {
  const Scratch scratch;
  const std::string mark = (scratch / "mark").string();
  // os.system("touch MARK"), as a call, as a class, by protocol 4, and as a part of a tensor's
  // dict.
  for (const std::string& pickle : {
           "cposix\nsystem\n(S'touch " + mark + "'\ntR.",
           "(S'touch " + mark + "'\niposix\nsystem\n.",
           std::string("\x80\x04\x8c\x05posix\x8c\x06system\x93."),
           "}S'w'\ncposix\nsystem\n(S'touch " + mark + "'\ntRs.",
       }) {
    EXPECT_THAT([&] { PickleFile::parse(pickle_bytes(pickle), "model.pt"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("model.pt"), HasSubstr("`posix.system`"),
                                           HasSubstr("no code of a file is run"),
                                           HasSubstr("\n  take the safetensors"))));
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
  // Parts of names on the list are not names on the list.
  for (const char* name : {"ctorch\nFloatStorage2\n.", "ctorch\nnn.Module\n.", "c\ntorch.Tensor\n.",
                           "ccollections.Ordered\nDict\n."}) {
    EXPECT_THAT([&] { PickleFile::parse(pickle_bytes(name), "model.pt"); },
                ThrowsMessage<Error>(HasSubstr("is refused")));
  }
}

TEST(Pickle, ReadsValuesOfAllProtocols) {
  const auto read = [](std::string_view text) { return Pickle::read(pickle_bytes(text), "a.pkl"); };
  const Pickle numbers = read(std::string_view(
      "(I5\nI-7\nL12L\nK\xff"
      "M\x01\x02J\xff\xff\xff\xff\x8a\x01\xffI01\nF2.5\nG?\xf0\x00\x00\x00\x00\x00\x00t.",
      51));
  const std::vector<int64_t> wanted{5, -7, 12, 255, 513, -1, -1, 1};
  const PickleValue& tuple = numbers[numbers.root];
  ASSERT_EQ(tuple.items.size(), wanted.size() + 2);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(numbers[tuple.items[i]].number, wanted[i]);
  }
  EXPECT_EQ(numbers[tuple.items[8]].real, 2.5);
  EXPECT_EQ(numbers[tuple.items[9]].real, 1.0);
  const Pickle text = read("V\\u20ac\\U0001f600\xe4\n.");
  EXPECT_EQ(text[text.root].text(), "\u20ac\U0001f600\u00e4");
}

TEST(Pickle, SaysWhatIsWrong) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      PickleFile::parse(pickle_bytes(text), "f.pt");
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(problem(""), HasSubstr("truncated"));
  EXPECT_THAT(problem("<html>"), HasSubstr("web page"));
  EXPECT_THAT(problem("X\xff\xff\xff\xff"), HasSubstr("truncated"));
  EXPECT_THAT(problem("N."), HasSubstr("no dict of tensors"));
  EXPECT_THAT(problem("}."), HasSubstr("has no tensors"));
  EXPECT_THAT(problem("0."), HasSubstr("contradict"));
  EXPECT_THAT(problem("h\x05."), HasSubstr("contradict"));
  EXPECT_THAT(problem("\x80\x06N."), HasSubstr("no opcode"));
  EXPECT_THAT(problem("}S'a'\nh\x01."), HasSubstr("contradict"));
  // A dict inside itself.
  EXPECT_THAT(problem("}q\x01S'a'\nh\x01s."), HasSubstr("levels deep"));
  EXPECT_THAT(problem("PK\x03\x04"), HasSubstr("truncated"));
}

/// The zip file of the fixture with `from` in it as `to`, of the same length.
std::string changed(const char* fixture, std::string_view from, std::string_view to) {
  std::string all = text_of(golden(fixture));
  const size_t at = all.find(from);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(from.size(), to.size());
  return all.replace(at, to.size(), to);
}

std::string problem_of(const std::string& all) {
  try {
    PickleFile::parse(pickle_bytes(all), "f.pt");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Pickle, RefusesTensorsThatLeaveTheirStorageOrOverlap) {
  using namespace std::string_view_literals;
  // The offset, size and stride of `shared.rows`: K\x06, (2, 6), (6, 1).
  constexpr auto kRows = "K\x06K\x02K\x06\x86"sv;
  const char* file = "pickles/checkpoint.ckpt";
  EXPECT_THAT(
      problem_of(changed(file, kRows, "K\x0dK\x02K\x06\x86"sv)),
      AllOf(HasSubstr("`shared.rows`"), HasSubstr("ends at element 24 of a storage of 24")));
  EXPECT_EQ(problem_of(changed(file, kRows, "K\x0cK\x02K\x06\x86"sv)), "none");
  EXPECT_THAT(problem_of(changed(file, kRows, "K\x06K\x02K\x07\x86"sv)),
              AllOf(HasSubstr("`shared.rows`"), HasSubstr("overlap"), HasSubstr("contiguous()")));
  std::string all = text_of(golden(file));
  all[all.rfind("checkpoint/data/3") + 16] = 'x';  // in the directory, which is at the end
  EXPECT_THAT(problem_of(all), HasSubstr("is not in the file"));
}

TEST(Pickle, RefusesWhatItDoesNotRead) {
  EXPECT_THAT(problem_of(changed("pickles/checkpoint.ckpt", "little", "biggie")),
              HasSubstr("big-endian"));
  EXPECT_THAT(problem_of(changed("pickles/old.pth", "little_endian\x71\x02\x88",
                                 "little_endian\x71\x02\x89")),
              HasSubstr("big-endian"));
  EXPECT_THAT(problem_of(changed("pickles/agent_4.pkl", "\x8c\x01<", "\x8c\x01>")),
              HasSubstr("big-endian"));
  const std::string all = text_of(golden("pickles/checkpoint.ckpt"));
  for (size_t size = 0; size < all.size(); size += 97) {  // no length is read past
    EXPECT_NE(problem_of(all.substr(0, size)), "none") << size;
  }
  const std::string old = text_of(golden("pickles/old.pth"));
  for (size_t size = 0; size < old.size(); size += 53) {
    EXPECT_NE(problem_of(old.substr(0, size)), "none") << size;
  }
}

}  // namespace
}  // namespace kinema::io
