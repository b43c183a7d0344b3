// The Model Context Protocol, by raw requests.
#include <gmock/gmock.h>

#include "serve/running_front.h"

namespace kinema::serve_test {
namespace {

using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class McpTest : public FrontTest {
 protected:
  /// The answer to a JSON-RPC request.
  Json rpc(const std::string& method, const std::string& params = "{}") {
    const std::string answer = ask(
        "POST", "/mcp",
        fmt::format(R"({{"jsonrpc":"2.0","id":"x","method":"{}","params":{}}})", method, params),
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    Json out = Json::parse(body_of(answer), "the answer");
    EXPECT_EQ(out.at("jsonrpc").as_string(), "2.0");
    EXPECT_EQ(out.at("id").as_string(), "x");
    return out;
  }
  Json call(const std::string& name, const std::string& arguments) {
    return rpc("tools/call", fmt::format(R"({{"name":"{}","arguments":{}}})", name, arguments))
        .at("result");
  }
  static std::string text_of(const Json& result) {
    return result.at("content").items().back().at("text").as_string();
  }
};

TEST_F(McpTest, SaysWhatItIs) {
  start();
  const Json hello = rpc("initialize", R"({"protocolVersion":"2025-03-26","capabilities":{}})");
  EXPECT_EQ(hello.at("result").at("protocolVersion").as_string(), "2025-03-26");
  EXPECT_EQ(hello.at("result").at("serverInfo").at("name").as_string(), "kinema");
  EXPECT_EQ(rpc("initialize", R"({"protocolVersion":"1999-01-01"})")
                .at("result")
                .at("protocolVersion")
                .as_string(),
            "2025-06-18");
  EXPECT_THAT(ask("POST", "/mcp", R"({"jsonrpc":"2.0","method":"notifications/initialized"})"),
              StartsWith("HTTP/1.1 202 "));
  rpc("ping");
  const Json tools = rpc("tools/list").at("result").at("tools");
  ASSERT_EQ(tools.items().size(), 3U);
  for (const Json& tool : tools.items()) {
    EXPECT_EQ(tool.at("inputSchema").at("type").as_string(), "object");
  }
}

TEST_F(McpTest, MakesAPicture) {
  start();
  const Json made = call("generate_image", R"({"prompt":"a fox","seed":7,"count":2})");
  EXPECT_FALSE(made.at("isError").as_bool());
  ASSERT_EQ(made.at("content").items().size(), 3U);
  EXPECT_EQ(made.at("content").items()[0].at("mimeType").as_string(), "image/png");
  EXPECT_THAT(made.at("content").items()[0].at("data").as_string(), StartsWith("iVBOR"));
  const Json about = Json::parse(text_of(made), "text");
  EXPECT_EQ(about.at("state").as_string(), "done");
  EXPECT_EQ(about.at("outputs").items()[1].at("seed").as_int(), 7);
  EXPECT_THAT(text_of(call("list_models", "{}")), HasSubstr("\"clips\""));
}

TEST_F(McpTest, GivesAJobThatTakesLong) {
  start();
  const Json slow = call("generate_image", R"({"prompt":"slow","wait_seconds":0})");
  const std::string id = Json::parse(text_of(slow), "text").at("id").as_string();
  EXPECT_EQ(slow.at("content").items().size(), 1U);
  const Json done = call("get_job", "{\"id\":\"" + id + "\",\"wait_seconds\":60}");
  EXPECT_EQ(done.at("content").items().size(), 2U);
}

TEST_F(McpTest, SaysWhatIsWrong) {
  start();
  EXPECT_TRUE(call("get_job", R"({"id":"j_unknown"})").at("isError").as_bool());
  EXPECT_TRUE(call("generate_image", R"({"prompt":"fail"})").at("isError").as_bool());
  for (const char* arguments :
       {R"({"prompt":"a","steps":"x"})", R"({"prompt":"a","count":0})",
        R"({"prompt":"a","count":100})", R"({"prompt":"a","output_dir":"/"})", R"({"prompt":7})",
        R"({"prompt":"a","model":"unknown"})"}) {
    EXPECT_TRUE(call("generate_image", arguments).at("isError").as_bool()) << arguments;
  }
  const auto code = [&](const std::string& method, const std::string& params) {
    return rpc(method, params).at("error").at("code").as_int();
  };
  EXPECT_EQ(code("resources/list", "{}"), -32601);
  EXPECT_EQ(code("tools/call", R"({"name":"unknown"})"), -32602);
  EXPECT_EQ(code("tools/call", R"({"name":"get_job","arguments":[]})"), -32602);
  EXPECT_EQ(code("tools/call", R"({"name":7})"), -32602);
  EXPECT_THAT(ask("POST", "/mcp", "{"), HasSubstr("-32700"));
  EXPECT_THAT(ask("POST", "/mcp", "[]"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("POST", "/mcp", R"({"jsonrpc":"2.0","id":1,"method":7})"), HasSubstr("-32600"));
  EXPECT_THAT(ask("POST", "/mcp", R"({"jsonrpc":"2.0","id":1,"method":"ping"})",
                  "Content-Type: application/json\r\nMCP-Protocol-Version: 1.0\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("GET", "/mcp"), StartsWith("HTTP/1.1 405"));
  http_test::Client client(port());
  client.send(
      fmt::format("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: "
                  "application/json\r\nContent-Length: 2\r\n\r\n{{}}",
                  port()));
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 401"));
}

}  // namespace
}  // namespace kinema::serve_test
