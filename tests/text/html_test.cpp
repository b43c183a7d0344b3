#include "kinema/text/html.h"

#include <gtest/gtest.h>

#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

std::string loose(std::string_view text) { return encode_utf8(unescape_html(decode_utf8(text))); }
std::string strict(std::string_view text) {
  return encode_utf8(unescape_html_strictly(decode_utf8(text)));
}

TEST(Html, NamedReferencesAreReplaced) {
  EXPECT_EQ(loose("Tom &amp; Jerry &lt;3 &quot;run&quot;"), "Tom & Jerry <3 \"run\"");
  EXPECT_EQ(loose("caf&eacute; &NotEqualTilde;"), "caf\xc3\xa9 \xe2\x89\x82\xcc\xb8");
}

TEST(Html, SomeNamesNeedNoSemicolonAndTheLongestWins) {
  EXPECT_EQ(loose("this&not that"), "this\xc2\xac that");
  EXPECT_EQ(loose("&notit;"), "\xc2\xacit;");
  EXPECT_EQ(loose("&notin;"), "\xe2\x88\x89");
  EXPECT_EQ(loose("&ampamp;"), "&amp;");
  EXPECT_EQ(loose("&hellip"), "&hellip");
}

TEST(Html, NumbersAreRepairedAsBrowsersDo) {
  EXPECT_EQ(loose("&#65;&#x42;&#67"), "ABC");
  EXPECT_EQ(loose("&#x80;&#150;"), "\xe2\x82\xac\xe2\x80\x93");
  EXPECT_EQ(loose("&#0;&#xd800;&#x110000;&#99999999999999999999;"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(loose("a&#1;&#xfffe;&#x7f;b"), "ab");
}

TEST(Html, WhatIsNoReferenceStays) {
  for (const char* text : {"", "&", "&&", "a & b", "&#;", "&#x;", "&;", "&nosuchthing;", "&#xg"}) {
    EXPECT_EQ(loose(text), text);
    EXPECT_EQ(strict(text), text);
  }
}

TEST(Html, TheStrictFormWantsSemicolonsAndKnowsCapitals) {
  EXPECT_EQ(strict("this&not that &amp"), "this&not that &amp");
  EXPECT_EQ(strict("P&EACUTE;REZ STRA&SZLIG;E &nTILDE;"), "P\xc3\x89REZ STRASSE &nTILDE;");
  EXPECT_EQ(strict("&#59;"), "&#59;");
  EXPECT_EQ(strict("&#x2019;"), "\xe2\x80\x99");
}

// All levels of nested ampersands at once, and one level of the reference that they introduce: the
// same as ftfy after repeated passes.
TEST(Html, TheStrictFormTakesNestedAmpersandsAtOnce) {
  EXPECT_EQ(strict("&amp;lt;"), "&lt;");
  EXPECT_EQ(strict("&amp;amp;AMP;#38;#x26;lt;"), "&lt;");
  EXPECT_EQ(strict("&amp;amp;amp"), "&amp");
  EXPECT_EQ(strict("&amp;nosuchthing;"), "&nosuchthing;");
  EXPECT_EQ(strict("&amp;&amp;amp;x"), "&&x");
}

}  // namespace
}  // namespace kinema::text
