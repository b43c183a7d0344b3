#include "kinema/http/router.h"

#include <gmock/gmock.h>

#include "kinema/core/error.h"
#include "kinema/http/events.h"
#include "kinema/http/target.h"

namespace kinema::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

Router::Match find(const Router& router, const std::string& method, const std::string& target) {
  return router.find(method, read_target(target)->segments);
}

TEST(Router, FindsTheMostLiteralRoute) {
  Router router;
  for (const char* pattern :
       {"/api/{what}", "/api/{what}/{id}", "/api/jobs/{id}", "/api/jobs/new", "/{page}", "/"}) {
    router.add({.method = "GET", .pattern = pattern});
  }
  const auto pattern = [&](const std::string& target) {
    const auto match = find(router, "GET", target);
    return match.route == nullptr ? "" : match.route->pattern;
  };

  EXPECT_EQ(pattern("/api/jobs/new"), "/api/jobs/new");
  EXPECT_EQ(pattern("/api/jobs/%6eew"), "/api/jobs/new");
  EXPECT_EQ(pattern("/api/jobs/7"), "/api/jobs/{id}");
  EXPECT_EQ(pattern("/api/runs/7"), "/api/{what}/{id}");
  EXPECT_EQ(pattern("/api/runs"), "/api/{what}");
  EXPECT_EQ(pattern("/"), "/");
  EXPECT_EQ(pattern("/style.css"), "/{page}");
  EXPECT_EQ(pattern("/api/jobs/"), "");
  EXPECT_EQ(pattern("/api/jobs/7/8"), "");
  EXPECT_THAT(find(router, "GET", "/api/jobs/a%2F..").params, ElementsAre(Pair("id", "a/..")));
}

TEST(Router, NamesTheMethodsOfAPath) {
  Router router;
  router.add({.method = "POST", .pattern = "/api/jobs"});
  router.add({.method = "GET", .pattern = "/api/jobs"});
  router.add({.method = "DELETE", .pattern = "/api/{what}"});

  EXPECT_NE(find(router, "HEAD", "/api/jobs").route, nullptr);
  EXPECT_NE(find(router, "DELETE", "/api/jobs").route, nullptr);
  EXPECT_EQ(find(router, "PATCH", "/api/jobs").route, nullptr);
  EXPECT_EQ(find(router, "PATCH", "/api/jobs").allowed, "DELETE, GET, POST");
  EXPECT_EQ(find(router, "PATCH", "/nothing").allowed, "");
}

TEST(Router, RefusesMalformedAndRepeatedRoutes) {
  Router router;
  router.add({.method = "GET", .pattern = "/a"});
  const auto adding = [&](const char* pattern) {
    return [&router, pattern] { router.add({.method = "GET", .pattern = pattern}); };
  };
  EXPECT_THAT(adding("/a"), ThrowsMessage<Error>(HasSubstr("twice")));
  EXPECT_THAT(adding("a"), ThrowsMessage<Error>(HasSubstr("`a`")));
  EXPECT_THAT(adding("/{a"), ThrowsMessage<Error>(HasSubstr("`{a`")));
  EXPECT_THAT(adding("/{}"), ThrowsMessage<Error>(HasSubstr("`{}`")));
}

TEST(EventStream, GivesWhatWasMissed) {
  EventStream events(100, 3);
  for (const char* data : {"a", "b", "c", "d"}) {
    events.publish("job", data);
  }
  EXPECT_EQ(events.last(), 104U);
  EXPECT_EQ(events.read(102, 1000).text, event_text(103, "job", "c") + event_text(104, "job", "d"));
  EXPECT_EQ(events.read(102, 1).text, event_text(103, "job", "c"));
  EXPECT_EQ(events.read(102, 1).last, 103U);
  EXPECT_EQ(events.read(104, 1000).text, "");
  EXPECT_EQ(events.read(101, 1000).last, 104U);
}

TEST(EventStream, ResetsWhoHasAnotherOrTooOldANumber) {
  EventStream events(100, 2);
  EXPECT_EQ(events.read(0, 1000).text, event_text(100, "reset", "{}"));
  EXPECT_EQ(events.read(7000, 1000).text, event_text(100, "reset", "{}"));
  for (int i = 0; i < 3; ++i) {
    events.publish("a", "b");
  }
  EXPECT_EQ(events.read(100, 1000).text, event_text(103, "reset", "{}"));
  EXPECT_EQ(events.read(100, 1000).last, 103U);
}

TEST(EventStream, EndsAfterTheLastEvent) {
  EventStream events;
  events.publish("", "one");
  events.publish("", "two");
  events.end();
  EXPECT_FALSE(events.read(0, 1).ended);
  EXPECT_TRUE(events.read(1, 1).ended);
  EXPECT_TRUE(events.read(2, 1).ended);
}

TEST(EventStream, TellsItsListeners) {
  EventStream events;
  int told = 0;
  const uint64_t listener = events.listen([&] { ++told; });
  events.publish("a", "b");
  events.end();
  events.forget(listener);
  events.publish("a", "b");
  EXPECT_EQ(told, 2);
}

TEST(EventText, HasALineForEachLineOfTheData) {
  EXPECT_EQ(event_text(7, "job", "a\nb\r\nc\rd"),
            "id: 7\nevent: job\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(event_text(0, "", ""), "data: \n\n");
}

TEST(EventId, IsDigits) {
  EXPECT_EQ(read_event_id("123"), 123U);
  for (const char* text : {"", "-1", "1x", "99999999999999999999", " 1"}) {
    EXPECT_EQ(read_event_id(text), 0U) << text;
  }
}

}  // namespace
}  // namespace kinema::http
