// The engine of mpirun and `srun --mpi=pmix`: messages over MPI, keys over PMIx. A module of its
// own, so that the program needs neither where no launcher started it.
#include <mpi.h>
#include <pmix.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/world/engine.h"

namespace kinema::world {
namespace {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("[world] {}: {}", call, std::string(text.data(), static_cast<size_t>(length)));
}

/// Parts of a message: a count of MPI is an int.
class MpiPending : public Pending {
 public:
  static constexpr size_t kPart = size_t{1} << 30;

  MpiPending() = default;
  MpiPending(const MpiPending&) = delete;
  MpiPending& operator=(const MpiPending&) = delete;
  ~MpiPending() override {
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  }

  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  bool done() override {
    int all = 1;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
    return all != 0;
  }

 private:
  std::vector<MPI_Request> requests_;
};

class MpiEngine : public Engine {
 public:
  MpiEngine() {
    int level = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    check(level == MPI_THREAD_MULTIPLE,
          "[world] this MPI was built without MPI_THREAD_MULTIPLE, which kinema needs");
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = rank;
    size_ = size;
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    name_.assign(text.data(), static_cast<size_t>(length));
    name_ = name_.substr(0, name_.find_first_of(",\n"));  // `Open MPI v4.1.4`
    const pmix_status_t status = PMIx_Init(&pmix_, nullptr, 0);
    has_pmix_ = status == PMIX_SUCCESS;
  }
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;
  ~MpiEngine() override {
    if (has_pmix_) {
      PMIx_Finalize(nullptr, 0);
    }
    for (MPI_Comm& channel : channels_) {
      MPI_Comm_free(&channel);
    }
    MPI_Finalize();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  std::string name() const override { return name_; }

  int open_channel() override {
    MPI_Comm channel = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &channel), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN);
    const std::lock_guard lock(mutex_);
    channels_.push_back(channel);
    return static_cast<int>(channels_.size()) - 1;
  }

  std::unique_ptr<Pending> send(int channel, std::span<const std::byte> bytes, int64_t to,
                                int tag) override {
    const MPI_Comm comm = comm_of(channel);
    auto pending = std::make_unique<MpiPending>();
    for_each_part(bytes.size(), [&](size_t offset, int count) {
      check_mpi(MPI_Isend(bytes.data() + offset, count, MPI_BYTE, static_cast<int>(to), tag, comm,
                          pending->add()),
                "MPI_Isend");
    });
    return pending;
  }
  std::unique_ptr<Pending> receive(int channel, std::span<std::byte> bytes, int64_t from,
                                   int tag) override {
    const MPI_Comm comm = comm_of(channel);
    auto pending = std::make_unique<MpiPending>();
    for_each_part(bytes.size(), [&](size_t offset, int count) {
      check_mpi(MPI_Irecv(bytes.data() + offset, count, MPI_BYTE, static_cast<int>(from), tag, comm,
                          pending->add()),
                "MPI_Irecv");
    });
    return pending;
  }

  void put(const std::string& key, const std::string& value) override {
    check_pmix();
    pmix_value_t boxed;
    PMIX_VALUE_CONSTRUCT(&boxed);
    boxed.type = PMIX_BYTE_OBJECT;
    boxed.data.bo = {const_cast<char*>(value.data()), value.size()};  // copied by the call
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &boxed);
    if (status == PMIX_SUCCESS) {
      status = PMIx_Commit();
    }
    check(status == PMIX_SUCCESS, "[world] PMIx_Put `{}`: {}", key, PMIx_Error_string(status));
  }

  // Keys have no owner that is known, so each process is asked in turn, for what is there now:
  // the one form that all servers of PMIx answer alike (Slurm's has no PMIx_Lookup).
  std::optional<std::string> get(const std::string& key) override {
    check_pmix();
    for (int64_t rank = 0; rank < size_; ++rank) {
      pmix_proc_t owner;
      PMIX_PROC_LOAD(&owner, pmix_.nspace, static_cast<pmix_rank_t>(rank));
      pmix_info_t now;
      bool yes = true;
      PMIX_INFO_LOAD(&now, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
      pmix_value_t* found = nullptr;
      if (PMIx_Get(&owner, key.c_str(), &now, 1, &found) == PMIX_SUCCESS) {
        std::string value(found->data.bo.bytes, found->data.bo.size);
        PMIX_VALUE_RELEASE(found);
        return value;
      }
    }
    return std::nullopt;
  }

 private:
  template <typename Visit>
  static void for_each_part(size_t bytes, const Visit& visit) {
    size_t offset = 0;
    do {
      const size_t count = std::min(bytes - offset, MpiPending::kPart);
      visit(offset, static_cast<int>(count));
      offset += count;
    } while (offset < bytes);
  }
  MPI_Comm comm_of(int channel) {
    const std::lock_guard lock(mutex_);
    return channels_.at(static_cast<size_t>(channel));
  }
  void check_pmix() const {
    check(has_pmix_, "[world] the launcher serves no PMIx, over which plugins exchange keys");
  }

  int64_t rank_ = 0;
  int64_t size_ = 1;
  std::string name_;
  bool has_pmix_ = false;
  pmix_proc_t pmix_{};
  std::mutex mutex_;  // of `channels_`
  std::vector<MPI_Comm> channels_;
};

}  // namespace
}  // namespace kinema::world

// NOLINTNEXTLINE(readability-identifier-naming): looked up by this name
extern "C" kinema::world::Engine* kinema_world_engine(std::string* error) {
  try {
    return new kinema::world::MpiEngine();
  } catch (const kinema::Error& failure) {
    *error = failure.what();
    return nullptr;
  }
}
