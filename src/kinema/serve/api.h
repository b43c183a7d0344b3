#pragma once

// Private to the module: the table of routes, and what their handlers share.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/http/events.h"
#include "kinema/http/gate.h"
#include "kinema/http/router.h"
#include "kinema/io/json.h"
#include "kinema/serve/catalogue.h"
#include "kinema/serve/front.h"
#include "kinema/serve/queue.h"
#include "kinema/serve/runs.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

class Plans;
class Datasets;
class Looks;
class Sharing;
class Downloads;

/// A route with what its documentation says. Types of fields are those of openapi.cpp.
struct Endpoint {
  struct Argument {
    std::string name;
    std::string type;
    std::string about;
  };
  std::string method;
  std::string pattern;
  std::string summary;
  std::string answer = "";           // the name of a schema; empty: not JSON
  std::string body = "";             // the same; empty: none
  std::vector<Argument> query = {};  // all optional
  int status = 200;
  http::Access access = http::Access::TOKEN;
  http::BodyRule rule = {};
};

/// All routes of a server, each declared once: they are served and documented from one table.
class Api {
 public:
  using Answer = std::function<http::Response(http::Request&)>;

  void add(Endpoint endpoint, http::Route::Handler handler);
  /// A handler that returns its answer.
  void add(Endpoint endpoint, Answer handler) {
    add(std::move(endpoint), http::answering(std::move(handler)));
  }
  /// A handler that returns JSON, sent with the endpoint's status.
  void add_json(Endpoint endpoint, std::function<io::Json(http::Request&)> handler);

  http::Router take_router() { return std::move(router_); }
  /// The OpenAPI 3.1 document of all endpoints.
  io::Json openapi(const std::string& version) const;

 private:
  http::Router router_;
  std::vector<Endpoint> endpoints_;
};

/// What handlers work on.
struct Context {
  const FrontOptions& options;
  Store& store;
  Queue& queue;
  Catalogue& catalogue;
  Runs& runs;
  Plans& plans;
  Datasets& datasets;
  Looks& looks;
  Sharing& sharing;
  Downloads* downloads;  // null: not allowed
  http::EventStream& events;
  std::shared_ptr<http::EventStream> stream;  // the same, for connections that outlive this
  const http::Gate& gate;
};

void add_state_routes(Api& api, Context& context);
void add_job_routes(Api& api, Context& context);
void add_output_routes(Api& api, Context& context);
void add_upload_routes(Api& api, Context& context);
void add_run_routes(Api& api, Context& context);
void add_model_routes(Api& api, Context& context);
void add_plan_routes(Api& api, Context& context);
void add_dataset_routes(Api& api, Context& context);
void add_mcp_routes(Api& api, Context& context);
void add_page_routes(Api& api, Context& context);

/// The JSON of an error, in the form of the API whose path was asked.
http::Response error_response(const http::Request& request, const http::Refusal& refusal);

/// A number of the query within [least, most]; `otherwise` if it is absent. Throws a Refusal of
/// status 422.
int64_t integer_argument(const http::Request& request, const std::string& name, int64_t otherwise,
                         int64_t least, int64_t most);

/// Reads {base, dataset, settings, yaml}, and whatever else `more` names. Throws a Refusal of
/// status 422 for another field.
RunRequest read_run_request(const io::Json& json, std::initializer_list<std::string_view> more);

/// {models, loras}, as clients see them.
io::Json models_json(Context& context);

/// Removes an output's files and forgets it.
void remove_forever(Context& context, const OutputRecord& output);

}  // namespace kinema::serve
