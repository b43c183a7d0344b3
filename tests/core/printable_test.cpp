#include "kinema/core/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace kinema {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  const std::string text = "a line\n\tTübingen, 北京, 🦊 \\ \"quoted\"";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesControlSequences) {
  EXPECT_EQ(printable("\x1b[2Jgone"), "\\x1b[2Jgone");
  EXPECT_EQ(printable("a\rb\ac\x7f"), "a\\x0db\\x07c\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(printable("\u202egnp.exe"), "\\u202egnp.exe");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

TEST(Printable, KeepsALineOfAMessageFromANameWithALineBreak) {
  EXPECT_EQ(printable_message("[data] a\naccepted: b\n  use c\td"),
            "[data] a\\x0aaccepted: b\n  use c\\x09d");
  EXPECT_EQ(printable_line("a\n  b\tc"), "a\\x0a  b\\x09c");
}

TEST(Printable, ShowsBytesThatAreNoText) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(printable("\xc3\x28"), "\\xc3(");
}

}  // namespace
}  // namespace kinema
