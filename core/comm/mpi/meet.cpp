#include "comm/mpi/meet.h"

#include <fmt/format.h>

#include "comm/mpi/counter.h"
#include "reshard/error.h"

namespace reshard::comm::mpi {

void check_mpi(int result, const char* call) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ErrorCode::communication, fmt::format("{} failed: {}", call, text), "",
              "see what the launcher and the other ranks say");
}

bool meet_all(MPI_Comm all, double seconds, const std::function<void()>& look) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(all, &request) != MPI_SUCCESS) return false;
  const int64_t until = now_nanoseconds() + static_cast<int64_t>(seconds * 1e9);
  int64_t pause = 1'000;
  for (;;) {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done != 0) return true;
    if (now_nanoseconds() > until) return false;
    look();
    sleep_nanoseconds(pause);
    pause = pause < 500'000 ? pause * 2 : pause;
  }
}

}  // namespace reshard::comm::mpi
