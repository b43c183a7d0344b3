// Jobs in the database.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/serve/store.h"
#include "kinema/serve/store_state.h"

namespace kinema::serve {
namespace {

constexpr std::array<std::string_view, 5> kStates{"waiting", "running", "done", "failed",
                                                  "cancelled"};

constexpr std::string_view kJob =
    "SELECT id,state,place,request,made,started,ended,attempts,notices,error,error_param,source "
    "FROM job ";
JobState read_state(std::string_view text) {
  const auto* found = std::ranges::find(kStates, text);
  return static_cast<JobState>(found - kStates.begin());
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

std::vector<JobRecord> read_jobs(Statement& rows) {
  std::vector<JobRecord> out;
  while (rows.step()) {
    out.push_back(read_job(rows));
  }
  return out;
}

std::optional<JobRecord> find_job(Database& database, std::string_view column,
                                  const std::string& value) {
  Statement rows = database.prepare(fmt::format("{} WHERE {}=? LIMIT 1", kJob, column));
  return rows.bind(value).step() ? std::optional(read_job(rows)) : std::nullopt;
}

std::string notices_text(const std::vector<std::string>& notices) {
  io::Json out = io::Json::array();
  for (const std::string& notice : notices) {
    out.append(notice);
  }
  return out.dump(-1);
}

}  // namespace

std::string_view name_of(JobState state) { return kStates.at(static_cast<size_t>(state)); }

JobRecord Store::add(const MakeRequest& request, const std::string& source,
                     const std::string& client_key, bool* is_new) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*state_->database);
  if (!client_key.empty()) {
    if (const auto known = find_job(*state_->database, "client_key", client_key)) {
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
  return find_job(*state_->database, "id", id);
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
    const auto other = find_job(*state_->database, "id", before);
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

}  // namespace kinema::serve
