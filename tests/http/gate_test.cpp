// Who is answered: hosts, origins, what browsers say of the page, the token.
#include "kinema/http/gate.h"

#include <gmock/gmock.h>

#include <set>

#include "kinema/http/cookies.h"

namespace kinema::http {
namespace {

const char* const kToken = "secret-token";

Gate make_gate() {
  return Gate({.hosts = {"127.0.0.1:7865", "localhost:7865", "[::1]:7865"},
               .origins = {"https://studio.example"},
               .token = kToken,
               .cookie = "kinema_7865"});
}

Request head(const Headers& headers, const std::string& method = "GET") {
  Request out{.method = method, .target = "/api/state", .path = "/api/state"};
  out.headers = headers;
  if (!out.headers.contains("Host")) {
    out.headers.add("Host", "127.0.0.1:7865");
  }
  return out;
}

/// The value of the cookie that the link is exchanged for.
std::string cookie() {
  Request request = head({});
  request.query["token"] = kToken;
  const std::string field(make_gate().exchange(request)->headers.get("set-cookie"));
  return field.substr(0, field.find(';'));
}

struct GateCase {
  const char* what;
  std::string method;
  Headers headers;
  int status;
};

TEST(Gate, DecidesByHostOriginSiteAndToken) {
  const std::string bearer = std::string("Bearer ") + kToken;
  const std::string basic = "Basic " + base64(std::string("anyone:") + kToken);
  const std::vector<GateCase> cases{
      {"a program", "POST", {{"Authorization", bearer}}, 200},
      {"other case", "POST", {{"Authorization", "bearer secret-token"}}, 200},
      {"a program with a password", "POST", {{"Authorization", basic}}, 200},
      {"the page",
       "POST",
       {{"Origin", "http://127.0.0.1:7865"},
        {"Sec-Fetch-Site", "same-origin"},
        {"Cookie", cookie()}},
       200},
      {"typed address", "GET", {{"Sec-Fetch-Site", "none"}, {"Cookie", cookie()}}, 200},
      {"localhost", "GET", {{"Host", "LOCALHOST:7865"}, {"Cookie", cookie()}}, 200},
      {"no token", "GET", {}, 401},
      {"wrong token", "GET", {{"Authorization", "Bearer secret"}}, 401},
      {"empty token", "GET", {{"Authorization", "Bearer "}}, 401},
      {"wrong password", "GET", {{"Authorization", "Basic " + base64("secret-token:")}}, 401},
      {"not base64", "GET", {{"Authorization", "Basic !"}}, 401},
      {"another cookie", "GET", {{"Cookie", "kinema_7865=secret-token"}}, 401},
      {"a cookie of another server",
       "GET",
       {{"Cookie", "kinema_7866=" + cookie().substr(12)}},
       401},
      {"wrong token, right cookie",
       "GET",
       {{"Authorization", "Bearer no"}, {"Cookie", cookie()}},
       401},
      {"rebound name", "GET", {{"Host", "rebind.example:7865"}, {"Cookie", cookie()}}, 421},
      {"other port", "GET", {{"Host", "127.0.0.1:80"}, {"Authorization", bearer}}, 421},
      {"no port", "GET", {{"Host", "127.0.0.1"}, {"Authorization", bearer}}, 421},
      {"empty host", "GET", {{"Host", ""}, {"Authorization", bearer}}, 421},
      {"another site", "POST", {{"Origin", "http://evil.example"}, {"Cookie", cookie()}}, 403},
      {"a sandboxed frame", "POST", {{"Origin", "null"}, {"Cookie", cookie()}}, 403},
      {"an empty origin", "POST", {{"Origin", ""}, {"Cookie", cookie()}}, 403},
      {"another port's page",
       "POST",
       {{"Origin", "http://127.0.0.1:8888"}, {"Cookie", cookie()}},
       403},
      {"https in place of http",
       "POST",
       {{"Origin", "https://127.0.0.1:7865"}, {"Cookie", cookie()}},
       403},
      {"an image of another site",
       "GET",
       {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}, {"Cookie", cookie()}},
       403},
      {"a subdomain", "GET", {{"Sec-Fetch-Site", "same-site"}, {"Cookie", cookie()}}, 403},
      {"a link on another site",
       "GET",
       {{"Sec-Fetch-Site", "cross-site"},
        {"Sec-Fetch-Mode", "navigate"},
        {"Sec-Fetch-Dest", "document"},
        {"Cookie", cookie()}},
       200},
      {"a frame on another site",
       "GET",
       {{"Sec-Fetch-Site", "cross-site"},
        {"Sec-Fetch-Mode", "navigate"},
        {"Sec-Fetch-Dest", "iframe"},
        {"Cookie", cookie()}},
       403},
      {"a form on another site",
       "POST",
       {{"Sec-Fetch-Site", "cross-site"},
        {"Sec-Fetch-Mode", "navigate"},
        {"Sec-Fetch-Dest", "document"},
        {"Cookie", cookie()}},
       403},
      {"a listed site",
       "POST",
       {{"Origin", "https://studio.example"},
        {"Sec-Fetch-Site", "cross-site"},
        {"Authorization", bearer}},
       200},
      {"a listed site without token", "POST", {{"Origin", "https://studio.example"}}, 401},
  };
  const Gate gate = make_gate();
  for (const GateCase& each : cases) {
    EXPECT_EQ(gate.check(head(each.headers, each.method), Access::TOKEN).status, each.status)
        << each.what;
  }
}

TEST(Gate, AsksForNoTokenWhereNoneIsNeeded) {
  EXPECT_EQ(make_gate().check(head({}), Access::OPEN).status, 200);
  EXPECT_EQ(make_gate().check(head({{"Host", "evil.example"}}), Access::OPEN).status, 421);
  const Gate open({.hosts = {"127.0.0.1:7865"}});
  EXPECT_EQ(open.check(head({}), Access::TOKEN).status, 200);
  EXPECT_EQ(open.check(head({{"Origin", "http://evil.example"}}), Access::TOKEN).status, 403);
}

TEST(Gate, ExchangesTheLinkForACookie) {
  Request request = head({});
  EXPECT_FALSE(make_gate().exchange(request));
  request.query["token"] = kToken;
  const auto answer = make_gate().exchange(request);
  EXPECT_EQ(answer->status, 303);
  EXPECT_EQ(answer->headers.get("location"), "/");
  EXPECT_EQ(std::string(answer->headers.get("set-cookie")).find(kToken), std::string::npos);
  request.query["token"] = "secret-toke";
  EXPECT_EQ(make_gate().exchange(request)->status, 401);
  EXPECT_FALSE(make_gate().exchange(request)->headers.contains("set-cookie"));
}

TEST(Gate, SignsLinksToOnePathForATime) {
  const Gate gate = make_gate();
  const auto status = [&](const std::string& path, const std::string& signed_for, int64_t expires,
                          const std::string& method = "GET") {
    Request request = head({}, method);
    request.path = path;
    const std::string query = gate.signed_query(signed_for, expires);
    request.query["expires"] = query.substr(8, query.find('&') - 8);
    request.query["signature"] = query.substr(query.find("signature=") + 10);
    return gate.check(request, Access::TOKEN).status;
  };
  constexpr int64_t kFarFuture = 99'999'999'999;
  EXPECT_EQ(status("/files/a/b.png", "/files/a/b.png", kFarFuture), 200);
  EXPECT_EQ(status("/files/a/c.png", "/files/a/b.png", kFarFuture), 401);
  EXPECT_EQ(status("/files/a/b.png", "/files/a/b.png", 1'000'000'000), 401);
  EXPECT_EQ(status("/files/a/b.png", "/files/a/b.png", kFarFuture, "DELETE"), 401);
  Request forged = head({});
  forged.query = {{"expires", "99999999999"}, {"signature", ""}};
  EXPECT_EQ(gate.check(forged, Access::TOKEN).status, 401);
}

TEST(Gate, LetsListedSitesOnlyReadAnswers) {
  EXPECT_EQ(make_gate()
                .cross_origin(head({{"Origin", "https://studio.example"}}))
                .get("access-control-allow-origin"),
            "https://studio.example");
  EXPECT_TRUE(
      make_gate().cross_origin(head({{"Origin", "https://evil.example"}})).fields().empty());
  EXPECT_TRUE(make_gate().cross_origin(head({})).fields().empty());
}

TEST(RandomToken, DiffersEachTime) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    tokens.insert(random_token());
    EXPECT_EQ(random_token().size(), 43U);
    EXPECT_EQ(random_id(80).size(), 16U);
  }
  EXPECT_EQ(tokens.size(), 100U);
}

TEST(Base64, ReadsWhatItWrites) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string("ab"),
                                   std::string("abc"), std::string("\0\xff\x80\x7f", 4)}) {
    EXPECT_EQ(base64_decoded(base64(bytes)), bytes);
  }
  EXPECT_EQ(base64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
  EXPECT_EQ(base64_decoded("_-8"), "\xff\xef");
  EXPECT_FALSE(base64_decoded("a b"));
  EXPECT_FALSE(base64_decoded("abcde"));
}

}  // namespace
}  // namespace kinema::http
