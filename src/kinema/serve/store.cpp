#include "kinema/serve/store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/io/descriptor.h"
#include "kinema/io/folder.h"
#include "kinema/serve/database.h"

namespace kinema::serve {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::array<std::string_view, 5> kStates{"waiting", "running", "done", "failed",
                                                  "cancelled"};

const char* const kSchema = R"(
CREATE TABLE job(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK(state IN('waiting','running','done','failed','cancelled')),
  place REAL NOT NULL, model TEXT NOT NULL, request TEXT NOT NULL, source TEXT NOT NULL,
  client_key TEXT UNIQUE, made REAL NOT NULL, started REAL, ended REAL,
  attempts INTEGER NOT NULL DEFAULT 0, notices TEXT NOT NULL DEFAULT '[]',
  error TEXT NOT NULL DEFAULT '', error_param TEXT NOT NULL DEFAULT '');
CREATE INDEX job_by_state ON job(state, place);
CREATE TABLE output(
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, job TEXT NOT NULL, path TEXT NOT NULL,
  thumb TEXT NOT NULL, is_video INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
  frames INTEGER NOT NULL, seconds REAL NOT NULL, bytes INTEGER NOT NULL, model TEXT NOT NULL,
  prompt TEXT NOT NULL, seed INTEGER NOT NULL, place INTEGER NOT NULL,
  starred INTEGER NOT NULL DEFAULT 0, deleted REAL, made REAL NOT NULL, request TEXT NOT NULL);
CREATE INDEX output_by_job ON output(job);
CREATE TABLE upload(
  id TEXT PRIMARY KEY, path TEXT NOT NULL, type TEXT NOT NULL, width INTEGER NOT NULL,
  height INTEGER NOT NULL, frames INTEGER NOT NULL, used REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE setting(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
)";

constexpr std::string_view kJob =
    "SELECT id,state,place,request,made,started,ended,attempts,notices,error,error_param,source "
    "FROM job ";
constexpr std::string_view kOutput =
    "SELECT id,job,path,thumb,is_video,width,height,frames,seconds,bytes,model,prompt,seed,place,"
    "starred,deleted,made,request FROM output ";

JobState read_state(std::string_view text) {
  const auto* found = std::ranges::find(kStates, text);
  return static_cast<JobState>(found - kStates.begin());
}

MakeRequest stored_request(const std::string& text) {
  return read_request(io::Json::parse(text, "serve.db"));
}

JobRecord read_job(const Statement& row) {
  JobRecord out{.id = row.text(0),
                .state = read_state(row.text(1)),
                .place = row.number(2),
                .request = stored_request(row.text(3)),
                .made = row.number(4),
                .started = row.optional_number(5),
                .ended = row.optional_number(6),
                .attempts = row.integer(7),
                .error = row.text(9),
                .error_param = row.text(10),
                .source = row.text(11)};
  const io::Json notices = io::Json::parse(row.text(8), "serve.db");
  for (const io::Json& notice : notices.items()) {
    out.notices.push_back(notice.as_string());
  }
  return out;
}

OutputRecord read_output(const Statement& row) {
  return {.id = row.text(0),
          .job = row.text(1),
          .path = row.text(2),
          .thumb = row.text(3),
          .is_video = row.integer(4) != 0,
          .width = row.integer(5),
          .height = row.integer(6),
          .frames = row.integer(7),
          .seconds = row.number(8),
          .bytes = row.integer(9),
          .model = row.text(10),
          .prompt = row.text(11),
          .seed = row.integer(12),
          .index = row.integer(13),
          .starred = row.integer(14) != 0,
          .deleted = row.optional_number(15),
          .made = row.number(16),
          .request = stored_request(row.text(17))};
}

std::vector<JobRecord> read_jobs(Statement& rows) {
  std::vector<JobRecord> out;
  while (rows.step()) {
    out.push_back(read_job(rows));
  }
  return out;
}

std::vector<OutputRecord> read_outputs(Statement& rows) {
  std::vector<OutputRecord> out;
  while (rows.step()) {
    out.push_back(read_output(rows));
  }
  return out;
}

std::string notices_text(const std::vector<std::string>& notices) {
  io::Json out = io::Json::array();
  for (const std::string& notice : notices) {
    out.append(notice);
  }
  return out.dump(-1);
}

/// The words of a search, at most ten.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size() && out.size() < 10;) {
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    if (end > at) {
      out.push_back(text.substr(at, end - at));
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string_view name_of(JobState state) { return kStates.at(static_cast<size_t>(state)); }

struct Store::State {
  explicit State(const std::filesystem::path& folder)
      : lock(io::Descriptor::open(folder / ".lock", O_RDWR | O_CREAT, 0600)),
        is_locked(lock && io::lock(lock, io::Lock::TRY)) {
    check(is_locked, "[serve] another `kinema serve` uses {}\n  give another serve_folder",
          folder.string());
    database.emplace(folder / "serve.db");
    Statement version = database->prepare("PRAGMA user_version");
    version.step();
    check(version.integer(0) <= kVersion,
          "[serve] {} is of a newer kinema: version {}, expected at most {}",
          (folder / "serve.db").string(), version.integer(0), kVersion);
    if (version.integer(0) == 0) {
      Transaction transaction(*database);
      database->run(kSchema);
      database->run(fmt::format("PRAGMA user_version={}", kVersion).c_str());
      transaction.commit();
    }
  }

  std::optional<JobRecord> find_job(std::string_view column, const std::string& value) {
    Statement rows = database->prepare(fmt::format("{} WHERE {}=? LIMIT 1", kJob, column));
    return rows.bind(value).step() ? std::optional(read_job(rows)) : std::nullopt;
  }

  io::Descriptor lock;
  bool is_locked;
  std::optional<Database> database;
};

Store::Store(const std::filesystem::path& folder) : folder_(folder) {
  io::make_folder(folder);
  state_ = std::make_unique<State>(folder);
}

Store::~Store() = default;

JobRecord Store::add(const MakeRequest& request, const std::string& source,
                     const std::string& client_key, bool* is_new) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  if (!client_key.empty()) {
    if (const auto known = state_->find_job("client_key", client_key)) {
      if (is_new != nullptr) {
        *is_new = false;
      }
      return *known;
    }
  }
  JobRecord out{
      .id = "j_" + http::random_id(), .request = request, .made = now(), .source = source};
  Statement last = state_->database->prepare("SELECT coalesce(max(place),0)+1 FROM job");
  last.step();
  out.place = last.number(0);
  Statement add = state_->database->prepare(
      "INSERT INTO job(id,state,place,model,request,source,client_key,made) "
      "VALUES(?,'waiting',?,?,?,?,?,?)");
  add.bind(out.id).bind(out.place).bind(request.model).bind(to_json(request).dump(-1)).bind(source);
  if (client_key.empty()) {
    add.bind_null();
  } else {
    add.bind(client_key);
  }
  add.bind(out.made).run();
  transaction.commit();
  if (is_new != nullptr) {
    *is_new = true;
  }
  return out;
}

std::optional<JobRecord> Store::job(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return state_->find_job("id", id);
}

std::optional<JobRecord> Store::newest_with_key(const std::string& prefix, double since) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(fmt::format(
      "{} WHERE client_key>=?1 AND substr(client_key,1,length(?1))=?1 AND made>?2 ORDER BY number "
      "DESC LIMIT 1",
      kJob));
  return rows.bind(prefix).bind(since).step() ? std::optional(read_job(rows)) : std::nullopt;
}

std::vector<JobRecord> Store::current_jobs(int64_t ended) {
  const std::lock_guard lock(mutex_);
  Statement current = state_->database->prepare(
      fmt::format("{} WHERE state IN('running','waiting') ORDER BY state,place,number", kJob));
  std::vector<JobRecord> out = read_jobs(current);
  Statement others = state_->database->prepare(fmt::format(
      "{} WHERE state IN('done','failed','cancelled') ORDER BY ended DESC LIMIT ?", kJob));
  others.bind(ended);
  for (JobRecord& job : read_jobs(others)) {
    out.push_back(std::move(job));
  }
  return out;
}

std::vector<JobRecord> Store::jobs_before(const std::string& before, int64_t limit) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(fmt::format(
      "{} WHERE number<coalesce((SELECT number FROM job WHERE id=?),9223372036854775807) "
      "ORDER BY number DESC LIMIT ?",
      kJob));
  rows.bind(before).bind(limit);
  return read_jobs(rows);
}

int64_t Store::waiting() {
  const std::lock_guard lock(mutex_);
  Statement count = state_->database->prepare("SELECT count(*) FROM job WHERE state='waiting'");
  count.step();
  return count.integer(0);
}

JobCounts Store::counts() {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(
      "SELECT sum(state='waiting'),sum(state='running'),sum(state='done'),sum(state='failed'),"
      "sum(state='cancelled'),total(CASE state WHEN 'done' THEN ended-started END),"
      "total(CASE state WHEN 'done' THEN started-made END) FROM job");
  rows.step();
  return {.waiting = rows.integer(0),
          .running = rows.integer(1),
          .done = rows.integer(2),
          .failed = rows.integer(3),
          .cancelled = rows.integer(4),
          .seconds = rows.number(5),
          .wait_seconds = rows.number(6)};
}

std::optional<JobRecord> Store::next(const std::string& model, double patience) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(fmt::format(
      "{} WHERE state='waiting' ORDER BY ?1<>'' AND model<>?1 AND NOT EXISTS(SELECT 1 "
      "FROM job WHERE state='waiting' AND model<>?1 AND made<?2), place, number LIMIT 1",
      kJob));
  return rows.bind(model).bind(now() - patience).step() ? std::optional(read_job(rows))
                                                        : std::nullopt;
}

bool Store::start(const std::string& id) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "UPDATE job SET state='running',started=?,attempts=attempts+1 WHERE id=? AND "
          "state='waiting'")
      .bind(now())
      .bind(id)
      .run();
  return state_->database->changes() == 1;
}

void Store::put_back(const std::string& id, bool counts) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "UPDATE job SET state='waiting',started=NULL,attempts=attempts-? WHERE id=? AND "
          "state='running'")
      .bind(int64_t{counts ? 0 : 1})
      .bind(id)
      .run();
}

void Store::finish(const std::string& id, const std::vector<OutputRecord>& outputs,
                   const std::vector<std::string>& notices) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  state_->database
      ->prepare("UPDATE job SET state='done',ended=?,notices=? WHERE id=? AND state='running'")
      .bind(now())
      .bind(notices_text(notices))
      .bind(id)
      .run();
  check(state_->database->changes() == 1, "[serve] the job {} is not running", id);
  for (const OutputRecord& each : outputs) {
    state_->database
        ->prepare(
            "INSERT INTO output(id,job,path,thumb,is_video,width,height,frames,seconds,bytes,"
            "model,prompt,seed,place,made,request) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .bind(each.id)
        .bind(id)
        .bind(each.path.string())
        .bind(each.thumb.string())
        .bind(int64_t{each.is_video})
        .bind(each.width)
        .bind(each.height)
        .bind(each.frames)
        .bind(each.seconds)
        .bind(each.bytes)
        .bind(each.model)
        .bind(each.prompt)
        .bind(each.seed)
        .bind(each.index)
        .bind(each.made)
        .bind(to_json(each.request).dump(-1))
        .run();
  }
  transaction.commit();
}

bool Store::end(const std::string& id, JobState state, const std::string& error,
                const std::string& param) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "UPDATE job SET state=?,ended=?,error=?,error_param=? WHERE id=? AND state "
          "IN('waiting','running')")
      .bind(name_of(state))
      .bind(now())
      .bind(error)
      .bind(param)
      .bind(id)
      .run();
  return state_->database->changes() == 1;
}

bool Store::edit(const std::string& id, const MakeRequest& request) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("UPDATE job SET request=?,model=? WHERE id=? AND state='waiting'")
      .bind(to_json(request).dump(-1))
      .bind(request.model)
      .bind(id)
      .run();
  return state_->database->changes() == 1;
}

bool Store::move(const std::string& id, const std::string& before) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  double place = 0;
  if (before.empty()) {
    Statement last = state_->database->prepare("SELECT coalesce(max(place),0)+1 FROM job");
    last.step();
    place = last.number(0);
  } else {
    const auto other = state_->find_job("id", before);
    if (!other || other->state != JobState::WAITING || before == id) {
      return false;
    }
    Statement earlier = state_->database->prepare(
        "SELECT max(place) FROM job WHERE state='waiting' AND place<? AND id<>?");
    earlier.bind(other->place).bind(id).step();
    place = earlier.is_null(0) ? other->place - 1 : (earlier.number(0) + other->place) / 2;
  }
  state_->database->prepare("UPDATE job SET place=? WHERE id=? AND state='waiting'")
      .bind(place)
      .bind(id)
      .run();
  const bool is_moved = state_->database->changes() == 1;
  transaction.commit();
  return is_moved;
}

bool Store::remove_job(const std::string& id) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("DELETE FROM job WHERE id=? AND state IN('done','failed','cancelled')")
      .bind(id)
      .run();
  return state_->database->changes() == 1;
}

void Store::recover(int64_t attempts, const std::string& error) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  state_->database
      ->prepare(
          "UPDATE job SET state='failed',ended=?,error=? WHERE state='running' AND attempts>=?")
      .bind(now())
      .bind(error)
      .bind(attempts)
      .run();
  state_->database->run("UPDATE job SET state='waiting',started=NULL WHERE state='running'");
  transaction.commit();
}

std::optional<OutputRecord> Store::output(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare(fmt::format("{} WHERE id=?", kOutput));
  return rows.bind(id).step() ? std::optional(read_output(rows)) : std::nullopt;
}

std::vector<OutputRecord> Store::outputs_of(const std::string& job) {
  const std::lock_guard lock(mutex_);
  Statement rows =
      state_->database->prepare(fmt::format("{} WHERE job=? ORDER BY number", kOutput));
  rows.bind(job);
  return read_outputs(rows);
}

OutputPage Store::outputs(const OutputQuery& query) {
  const std::vector<std::string> words = words_of(query.words);
  std::string where = query.deleted ? " WHERE deleted IS NOT NULL" : " WHERE deleted IS NULL";
  where += query.model.empty() ? "" : " AND model=?";
  where += query.kind.empty() ? "" : " AND is_video=?";
  where += query.starred ? " AND starred" : "";
  for (size_t i = 0; i < words.size(); ++i) {
    where += " AND instr(lower(prompt),lower(?))>0";
  }
  const auto bind = [&](Statement& statement) {
    if (!query.model.empty()) {
      statement.bind(query.model);
    }
    if (!query.kind.empty()) {
      statement.bind(int64_t{query.kind == "video"});
    }
    for (const std::string& word : words) {
      statement.bind(word);
    }
  };
  const std::lock_guard lock(mutex_);
  OutputPage out;
  Statement count = state_->database->prepare("SELECT count(*) FROM output" + where);
  bind(count);
  count.step();
  out.total = count.integer(0);
  Statement rows = state_->database->prepare(
      fmt::format("{}{} ORDER BY number DESC LIMIT ? OFFSET ?", kOutput, where));
  bind(rows);
  rows.bind(query.limit).bind(query.offset);
  out.outputs = read_outputs(rows);
  return out;
}

void Store::star(const std::string& id, bool starred) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("UPDATE output SET starred=? WHERE id=?")
      .bind(int64_t{starred})
      .bind(id)
      .run();
}

void Store::set_deleted(const std::string& id, const std::optional<double>& when) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("UPDATE output SET deleted=? WHERE id=?").bind(when).bind(id).run();
}

void Store::forget_output(const std::string& id) {
  const std::lock_guard lock(mutex_);
  state_->database->prepare("DELETE FROM output WHERE id=?").bind(id).run();
}

void Store::add_upload(const UploadRecord& upload) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "INSERT INTO upload(id,path,type,width,height,frames,used) VALUES(?,?,?,?,?,?,?) ON "
          "CONFLICT(id) DO UPDATE SET used=excluded.used")
      .bind(upload.id)
      .bind(upload.path.string())
      .bind(upload.type)
      .bind(upload.width)
      .bind(upload.height)
      .bind(upload.frames)
      .bind(now())
      .run();
}

std::optional<UploadRecord> Store::upload(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Statement rows =
      state_->database->prepare("SELECT id,path,type,width,height,frames FROM upload WHERE id=?");
  if (!rows.bind(id).step()) {
    return std::nullopt;
  }
  return UploadRecord{.id = rows.text(0),
                      .path = rows.text(1),
                      .type = rows.text(2),
                      .width = rows.integer(3),
                      .height = rows.integer(4),
                      .frames = rows.integer(5)};
}

std::vector<UploadRecord> Store::take_unused_uploads(double time) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  const std::string_view unused =
      "FROM upload WHERE used<? AND NOT EXISTS(SELECT 1 FROM job WHERE state "
      "IN('waiting','running') AND instr(request,upload.id)>0)";
  Statement rows = state_->database->prepare(fmt::format("SELECT id,path {}", unused));
  rows.bind(time);
  std::vector<UploadRecord> out;
  while (rows.step()) {
    out.push_back({.id = rows.text(0), .path = rows.text(1)});
  }
  state_->database->prepare(fmt::format("DELETE {}", unused)).bind(time).run();
  transaction.commit();
  return out;
}

std::string Store::setting(const std::string& key) {
  const std::lock_guard lock(mutex_);
  Statement rows = state_->database->prepare("SELECT value FROM setting WHERE key=?");
  return rows.bind(key).step() ? rows.text(0) : "";
}

void Store::set_setting(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  state_->database
      ->prepare(
          "INSERT INTO setting VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value")
      .bind(key)
      .bind(value)
      .run();
}

}  // namespace kinema::serve
