// What is known of ranks that died half-way: in the middle of telling a failure, or before joining.
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/backends/local/hub.h"
#include "unit.h"

static void test_killed_while_telling(void **state) {
  (void)state;
  shoal_failure_t told = {0}, half = {0};
  assert_true(shoal_failure_set(&told, SHOAL_MISMATCH, 3, "whole"));
  assert_error(MISMATCH, "whole", shoal_failure_status(&told));
  assert_false(shoal_failure_set(&told, SHOAL_ABORTED, 1, "later"));
  assert_error(MISMATCH, "whole", shoal_failure_status(&told));
  // As it is in the middle of shoal_failure_set by rank 3.
  atomic_store(&half.state, 1u | 4u << 2);
  assert_false(shoal_failure_set(&half, SHOAL_ABORTED, 1, "later"));
  assert_error(ABORTED, "rank 3 failed", shoal_failure_status(&half));
}

static pid_t dead_process(void) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, NULL, 0);
  return pid;
}

// A process that is known, but died before it joined, is gone; so is one that had joined. One that
// left may be followed by another.
static void test_dead_before_joining(void **state) {
  (void)state;
  shoal_hub_t *hub;
  assert_ok(shoal_hub_create(5, NULL, &hub));
  for (int32_t i = 1; i < 4; ++i) shoal_hub_set_process(hub, i, dead_process());
  assert_int_equal(shoal_hub_join(hub, 2), 1);
  assert_int_equal(shoal_hub_join(hub, 3), 1);
  shoal_hub_leave(hub, 3, SHOAL_HUB_LEFT);
  shoal_hub_check_processes(hub, 0);
  assert_int_equal(shoal_hub_state(hub, 0), SHOAL_HUB_ABSENT);
  assert_int_equal(shoal_hub_state(hub, 1), SHOAL_HUB_GONE);
  assert_int_equal(shoal_hub_state(hub, 2), SHOAL_HUB_GONE);
  assert_int_equal(shoal_hub_state(hub, 3), SHOAL_HUB_LEFT);
  assert_int_equal(shoal_hub_state(hub, 4), SHOAL_HUB_ABSENT);  // no process is known yet
  shoal_hub_close(hub);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed_while_telling),
      cmocka_unit_test(test_dead_before_joining),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
