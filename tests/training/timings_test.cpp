#include "kinema/training/timings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::training {
namespace {

TEST(Timings, SumPhasesInTheOrderOfTheirFirstTime) {
  Timings timings;
  timings.add("compile", 2.0);
  timings.add("load", 1.0);
  timings.add("compile", 0.5);

  ASSERT_EQ(timings.phases().size(), 2U);
  EXPECT_EQ(timings.phases()[0].name, "compile");
  EXPECT_EQ(timings.phases()[0].seconds, 2.5);
  EXPECT_EQ(timings.phases()[0].times, 2);
  EXPECT_EQ(timings.phases()[1].name, "load");
}

TEST(Timings, MeasureWorkAndHandItsResultOn) {
  Timings timings;
  EXPECT_EQ(timings.measure("add", [] { return 1 + 1; }), 2);
  { const auto span = timings.measure("add"); }
  ASSERT_EQ(timings.phases().size(), 1U);
  EXPECT_EQ(timings.phases()[0].times, 2);
  EXPECT_GE(timings.phases()[0].seconds, 0);
}

TEST(Timings, CountWorkThatFails) {
  Timings timings;
  EXPECT_THROW(timings.measure("fail", [] { fail("[train] no"); }), Error);
  EXPECT_EQ(timings.phases().at(0).times, 1);
}

TEST(Timings, AreWrittenAsALineOfJsonAPhase) {
  const io::Scratch scratch;
  Timings timings;
  timings.add("compile", 2.5);
  timings.add("load", 1.0);
  timings.write(scratch / "timings.jsonl");

  std::ifstream in(scratch / "timings.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const io::Json phase = io::Json::parse(line, "line");
  EXPECT_EQ(phase.at("phase").as_string(), "compile");
  EXPECT_EQ(phase.at("seconds").as_number(), 2.5);
  EXPECT_EQ(phase.at("times").as_int(), 1);
  EXPECT_TRUE(std::getline(in, line));
  EXPECT_FALSE(std::getline(in, line));
}

}  // namespace
}  // namespace kinema::training
