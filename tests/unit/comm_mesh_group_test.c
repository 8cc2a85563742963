// Groups from meshes: which ranks they have, in any order of axes; model, expert and node groups;
// neighbours; derived meshes; inactive ranks; the check against the world; the drawing.
// links: launch
#include <stdlib.h>

#include "base/arena.h"
#include "comm_ranks.h"
#include "shoal/group.h"

static shoal_arena_t arena;

static int setup(void **state) {
  (void)state;
  shoal_arena_init(shoal_allocator_system(), &arena);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  shoal_arena_deinit(&arena);
  return 0;
}

static shoal_mesh_t mesh_of(const char *text) {
  shoal_mesh_t mesh;
  assert_ok(shoal_mesh_parse(text, &arena, &mesh));
  return mesh;
}

static const char *text_of(const shoal_mesh_t *mesh) {
  const char *text;
  assert_ok(shoal_mesh_print(mesh, &arena, &text));
  return text;
}

// "0 4 8 12": the ranks of a group.
static const char *ranks_text(const shoal_mesh_t *mesh, const char *axes, int32_t rank) {
  int64_t count;
  const int32_t *ranks;
  assert_ok(shoal_mesh_group_ranks(mesh, axes, rank, &arena, &count, &ranks));
  char *text = shoal_arena_strdup(&arena, "");
  for (int64_t i = 0; i < count; ++i) {
    text = shoal_arena_printf(&arena, "%s%s%d", text, i ? " " : "", ranks[i]);
  }
  return text;
}

// ---- ranks of groups ------------------------------------------------------------------

// The numbers TorchDistPackage prints for its example of 16 ranks (reference §2.1).
static void test_axes(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=4,pipe=2,tensor=2");
  assert_string_equal(ranks_text(&mesh, "tensor", 3), "2 3");
  assert_string_equal(ranks_text(&mesh, "pipe", 4), "4 6");
  assert_string_equal(ranks_text(&mesh, "pipe", 3), "1 3");
  assert_string_equal(ranks_text(&mesh, "data", 8), "0 4 8 12");
  assert_string_equal(ranks_text(&mesh, "data", 5), "1 5 9 13");
  assert_string_equal(ranks_text(&mesh, "model", 6), "4 5 6 7");
  assert_string_equal(ranks_text(&mesh, "all", 6), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
  assert_string_equal(ranks_text(&mesh, "", 6), "6");
  assert_string_equal(ranks_text(&mesh, "data,tensor", 2), "2 3 6 7 10 11 14 15");
  assert_string_equal(ranks_text(&mesh, "tensor, data", 2), "2 6 10 14 3 7 11 15");
  assert_string_equal(ranks_text(&mesh, "tensor", 99), "");
  // Another order: data inside the node, pipe across.
  mesh = mesh_of("pipe=2,tensor=2,data=4");
  assert_string_equal(ranks_text(&mesh, "data", 5), "4 5 6 7");
  assert_string_equal(ranks_text(&mesh, "pipe", 5), "5 13");
  assert_string_equal(ranks_text(&mesh, "model", 5), "1 5 9 13");
  // Listed ranks, and an axis that is really called model.
  mesh = mesh_of("data=2,model=2@7,3,5,1");
  assert_string_equal(ranks_text(&mesh, "model", 5), "5 1");
  assert_string_equal(ranks_text(&mesh, "data", 5), "7 5");
}

static void test_axes_refused(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=4,tensor=2");
  int64_t count;
  const int32_t *ranks;
  assert_error(NOT_FOUND, "no axis 'tenser'",
               shoal_mesh_group_ranks(&mesh, "tenser", 0, &arena, &count, &ranks));
  assert_error(NOT_FOUND, "did you mean 'tensor'",
               shoal_mesh_group_ranks(&mesh, "data,tenser", 0, &arena, &count, &ranks));
  assert_error(INVALID_ARGUMENT, "'data' is there twice",
               shoal_mesh_group_ranks(&mesh, "data,data", 0, &arena, &count, &ranks));
  assert_error(INVALID_ARGUMENT, "expected an axis",
               shoal_mesh_group_ranks(&mesh, "data,", 0, &arena, &count, &ranks));
  assert_error(INVALID_ARGUMENT, "expected an axis",
               shoal_mesh_group_ranks(&mesh, "data tensor", 0, &arena, &count, &ranks));
  assert_error(NOT_FOUND, "no axis ''",
               shoal_mesh_group_ranks(&mesh, ",data", 0, &arena, &count, &ranks));
}

static void test_experts(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=4,pipe=2,tensor=2"), moe, other;
  assert_ok(shoal_mesh_experts(&mesh, 2, &arena, &moe));
  assert_string_equal(text_of(&moe), "moe_dp=2,moe_ep=2,pipe=2,tensor=2");
  assert_string_equal(ranks_text(&moe, "moe_ep", 0), "0 4");
  assert_string_equal(ranks_text(&moe, "moe_ep", 12), "8 12");
  assert_string_equal(ranks_text(&moe, "moe_dp", 0), "0 8");
  assert_string_equal(ranks_text(&moe, "moe_dp", 4), "4 12");
  assert_string_equal(ranks_text(&moe, "moe_dp,moe_ep", 5), ranks_text(&mesh, "data", 5));
  assert_ok(shoal_mesh_experts(&mesh, 4, &arena, &moe));
  assert_string_equal(ranks_text(&moe, "moe_ep", 4), "0 4 8 12");
  assert_string_equal(ranks_text(&moe, "moe_dp", 4), "4");
  mesh = mesh_of("tensor=2,data=2@3,2,1,0");  // data last, ranks listed
  assert_ok(shoal_mesh_experts(&mesh, 2, &arena, &moe));
  assert_string_equal(text_of(&moe), "tensor=2,moe_dp=1,moe_ep=2@3,2,1,0");
  assert_error(INVALID_ARGUMENT, "axis 'data' has 2 ranks, which 3 does not divide",
               shoal_mesh_experts(&mesh, 3, &arena, &other));
  assert_error(INVALID_ARGUMENT, "does not divide", shoal_mesh_experts(&mesh, 0, &arena, &other));
  assert_error(INVALID_ARGUMENT, "an axis 'tensor' already",
               shoal_mesh_split(&mesh, "data", "tensor", "x", 2, &arena, &other));
  assert_error(INVALID_ARGUMENT, "an axis 'x' already",
               shoal_mesh_split(&mesh, "data", "x", "x", 2, &arena, &other));
  assert_error(INVALID_ARGUMENT, "cannot name",
               shoal_mesh_split(&mesh, "data", "micro", "x", 2, &arena, &other));
  assert_error(INVALID_ARGUMENT, "not one axis",
               shoal_mesh_split(&mesh, "data,tensor", "a", "b", 2, &arena, &other));
  mesh = mesh_of("tensor=4");
  assert_error(NOT_FOUND, "no axis 'data'", shoal_mesh_experts(&mesh, 2, &arena, &other));
}

static void test_neighbours(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=2,pipe=3@5,4,3,2,1,0");
  assert_int_equal(shoal_mesh_next(&mesh, "pipe", 5), 4);
  assert_int_equal(shoal_mesh_next(&mesh, "pipe", 3), -1);
  assert_int_equal(shoal_mesh_prev(&mesh, "pipe", 5), -1);
  assert_int_equal(shoal_mesh_prev(&mesh, "pipe", 0), 1);
  assert_int_equal(shoal_mesh_first(&mesh, "pipe", 0), 2);
  assert_int_equal(shoal_mesh_last(&mesh, "pipe", 2), 0);
  assert_int_equal(shoal_mesh_next(&mesh, "data", 4), 1);
  assert_int_equal(shoal_mesh_next(&mesh, "data", 1), -1);
  assert_int_equal(shoal_mesh_next(&mesh, "pipe", 6), -1);  // not on it
  assert_int_equal(shoal_mesh_first(&mesh, "pipe", -1), -1);
  assert_int_equal(shoal_mesh_last(&mesh, "stage", 5), -1);  // no such axis
}

// ---- derived meshes -------------------------------------------------------------------

static void test_derived(void **state) {
  (void)state;
  shoal_mesh_t a, b, both, sub;
  assert_ok(shoal_mesh_of_ranks(3, (const int32_t[]){4, 1, 7}, &arena, &a));
  assert_string_equal(text_of(&a), "rank=3@4,1,7");
  b = mesh_of("x=2,y=2@1,2,4,9");
  assert_ok(shoal_mesh_union(&a, &b, &arena, &both));
  assert_string_equal(text_of(&both), "rank=5@4,1,7,2,9");
  assert_ok(shoal_mesh_union(&b, &a, &arena, &both));
  assert_string_equal(text_of(&both), "rank=5@1-2,4,9,7");
  assert_ok(shoal_mesh_union(&a, &a, &arena, &both));
  assert_true(shoal_mesh_equal(&both, &a));
  assert_error(INVALID_ARGUMENT, "rank 1 twice",
               shoal_mesh_of_ranks(3, (const int32_t[]){1, 2, 1}, &arena, &both));
  assert_error(INVALID_ARGUMENT, "a mesh of 0 ranks", shoal_mesh_of_ranks(0, NULL, &arena, &both));

  shoal_mesh_t mesh = mesh_of("data=2,pipe=3,tensor=2,micro=4");
  assert_ok(shoal_mesh_sub(&mesh, "tensor", 9, &arena, &sub));
  assert_string_equal(text_of(&sub), "tensor=2,micro=4@8-9");
  assert_ok(shoal_mesh_sub(&mesh, "data,tensor", 2, &arena, &sub));
  assert_string_equal(text_of(&sub), "data=2,tensor=2,micro=4@2-3,8-9");
  assert_ok(shoal_mesh_sub(&mesh, "tensor,pipe", 0, &arena, &sub));
  assert_string_equal(text_of(&sub), "tensor=2,pipe=3,micro=4@0,2,4,1,3,5");
  assert_ok(shoal_mesh_sub(&mesh, "", 7, &arena, &sub));
  assert_int_equal(shoal_mesh_size(&sub), 1);
  assert_int_equal(shoal_mesh_rank(&sub, 0), 7);
  assert_error(NOT_FOUND, "rank 12 is not on mesh 'data=2,pipe=3,tensor=2'",
               shoal_mesh_sub(&mesh, "data", 12, &arena, &sub));
}

static void test_check(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=4,tensor=2");
  assert_ok(shoal_mesh_check(&mesh, 8, true));
  assert_ok(shoal_mesh_check(&mesh, 9, false));
  assert_error(INVALID_ARGUMENT, "mesh 'data=4,tensor=2' makes 8 ranks, but the world has 6",
               shoal_mesh_check(&mesh, 6, false));
  assert_error(INVALID_ARGUMENT, "start 8 ranks", shoal_mesh_check(&mesh, 6, true));
  assert_error(INVALID_ARGUMENT, "makes 8 ranks, but the world has 9",
               shoal_mesh_check(&mesh, 9, true));
  mesh = mesh_of("data=2@1,6");
  assert_error(INVALID_ARGUMENT, "has rank 6, but the world has 6",
               shoal_mesh_check(&mesh, 6, false));
  mesh.ranks = (const int32_t[]){3, 3};
  assert_error(INVALID_ARGUMENT, "rank 3 twice", shoal_mesh_check(&mesh, 6, false));
}

static void test_draw(void **state) {
  (void)state;
  const char *text;
  shoal_mesh_t mesh = mesh_of("data=4@0,2-4");
  assert_ok(shoal_mesh_draw(&mesh, &arena, &text));
  assert_string_equal(text,
                      "      data 0 1 2 3\n"
                      "rank       0 2 3 4\n");
  mesh = mesh_of("data=2,tensor=3@10,1,2,3,4,5");
  assert_ok(shoal_mesh_draw(&mesh, &arena, &text));
  assert_string_equal(text,
                      "        tensor  0  1  2\n"
                      "data 0         10  1  2\n"
                      "data 1          3  4  5\n");
  mesh = mesh_of("data=2,pipe=2,tensor=2");
  assert_ok(shoal_mesh_draw(&mesh, &arena, &text));
  assert_string_equal(text,
                      "data 0  tensor 0 1\n"
                      "pipe 0         0 1\n"
                      "pipe 1         2 3\n"
                      "data 1  tensor 0 1\n"
                      "pipe 0         4 5\n"
                      "pipe 1         6 7\n");
  mesh = mesh_of("a=2,b=1,c=1,d=2");
  assert_ok(shoal_mesh_draw(&mesh, &arena, &text));
  assert_string_equal(text,
                      "a 0, b 0  d 0 1\n"
                      "     c 0    0 1\n"
                      "a 1, b 0  d 0 1\n"
                      "     c 0    2 3\n");
  mesh = mesh_of("");
  assert_ok(shoal_mesh_draw(&mesh, &arena, &text));
  assert_string_equal(text, "      \nrank   0\n");
}

// ---- groups that talk -----------------------------------------------------------------

static shoal_status_t sum_in(shoal_group_t *group, int64_t value, int64_t *out_sum) {
  return shoal_all_reduce(group, SHOAL_I64, SHOAL_REDUCE_SUM, 1, &value, out_sum);
}

// Every rank sums different numbers in each of its groups; expected from the mesh alone.
static shoal_status_t talk(shoal_world_t *world, void *self) {
  const shoal_mesh_t *mesh = self;
  static const char *const axes[] = {"data", "tensor", "data,tensor", "tensor,data", "model", ""};
  const int32_t me = shoal_world_rank(world);
  const bool active = shoal_mesh_position(mesh, me) >= 0;
  shoal_arena_t local;
  shoal_arena_init(shoal_allocator_system(), &local);
  shoal_status_t status = NULL;
  for (int i = 0; i < 6 && !status; ++i) {
    shoal_group_t *group = NULL;
    int64_t count = 0, sum = 0, expected = 0;
    const int32_t *ranks = NULL;
    status = shoal_group_along(world, mesh, axes[i], &group);
    if (!status) status = shoal_mesh_group_ranks(mesh, axes[i], me, &local, &count, &ranks);
    if (!status && shoal_group_size(group) != count) status = SHOAL_ERROR(INTERNAL, "size");
    if (!status && (shoal_group_rank(group) >= 0) != active) status = SHOAL_ERROR(INTERNAL, "rank");
    for (int64_t k = 0; k < count && !status; ++k) {
      if (shoal_group_ranks(group)[k] != ranks[k]) status = SHOAL_ERROR(INTERNAL, "ranks");
      if ((ranks[k] == me) != (shoal_group_rank(group) == k)) status = SHOAL_ERROR(INTERNAL, "me");
      expected += ranks[k] * ranks[k] + 5;
    }
    if (!status && active) status = sum_in(group, me * me + 5, &sum);
    if (!status && active && sum != expected) {
      status = SHOAL_ERROR(INTERNAL, "group '%s': %lld, not %lld", axes[i], (long long)sum,
                           (long long)expected);
    }
    if (!status && !active) {  // refused, and the world stays whole
      shoal_status_t refused = sum_in(group, 1, &sum);
      if (shoal_status_code(refused) != SHOAL_INVALID_ARGUMENT) {
        status = SHOAL_ERROR(INTERNAL, "an inactive rank summed");
      }
      shoal_status_free(refused);
    }
    shoal_group_free(group);
  }
  shoal_arena_deinit(&local);
  return shoal_world_agree(world, status);
}

static void test_talk(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=2,tensor=3");
  run_threads(NULL, 6, talk, &mesh);
  run_threads(NULL, 7, talk, &mesh);  // one is inactive
  mesh = mesh_of("tensor=2,data=2@6,1,3,4");
  run_threads(NULL, 7, talk, &mesh);
  mesh = mesh_of("data=1,tensor=1");
  run_threads(NULL, 1, talk, &mesh);
  run_threads(NULL, 3, talk, &mesh);
}

static shoal_status_t too_large(shoal_world_t *world, void *self) {
  shoal_group_t *group = NULL;
  CHECK_ERROR(INVALID_ARGUMENT, "makes 8 ranks, but the world has 3",
              shoal_group_along(world, self, "data", &group));
  return NULL;
}

static shoal_status_t split(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_split(world, INT64_MIN + me % 3, &group));
  int64_t sum = 0;
  shoal_status_t status = sum_in(group, me + 1, &sum);
  const int32_t size = shoal_group_size(group), first = shoal_group_ranks(group)[0];
  shoal_group_free(group);
  SHOAL_RETURN_IF_ERROR(status);
  // Of 7 ranks: 0 3 6, 1 4, 2 5.
  static const int64_t sums[] = {1 + 4 + 7, 2 + 5, 3 + 6};
  CHECK(size == (me % 3 ? 2 : 3) && first == me % 3 && sum == sums[me % 3],
        "rank %d: group of %d from %d sums to %lld", me, size, first, (long long)sum);
  return NULL;
}

static shoal_status_t node(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world), n = shoal_world_size(world);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_node(world, &group));  // threads: all on one host
  const bool good = shoal_group_size(group) == n && shoal_group_rank(group) == me;
  shoal_group_free(group);
  CHECK(good, "not all ranks of this host are in its group");
  return NULL;
}

// Ranks as processes that call their node what they like: as on two hosts.
static shoal_status_t two_nodes(shoal_world_t *world, void *self) {
  (void)self;
  const int32_t me = shoal_world_rank(world);
  setenv("SHOAL_NODE", me < 2 ? "left" : "right", 1);
  shoal_group_t *group = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_group_node(world, &group));
  int64_t sum = 0;
  shoal_status_t status = sum_in(group, 10 + me, &sum);
  const int32_t size = shoal_group_size(group);
  shoal_group_free(group);
  SHOAL_RETURN_IF_ERROR(status);
  CHECK(size == (me < 2 ? 2 : 3) && sum == (me < 2 ? 21 : 39), "rank %d: %d ranks, sum %lld", me,
        size, (long long)sum);
  return NULL;
}

static void test_split_and_node(void **state) {
  (void)state;
  shoal_mesh_t mesh = mesh_of("data=4,tensor=2");
  run_threads(NULL, 3, too_large, &mesh);
  run_threads(NULL, 7, split, NULL);
  run_threads(NULL, 4, node, NULL);
  run_threads(&(shoal_world_options_t){.backend = "self"}, 1, node, NULL);
  assert_ok(run_processes(NULL, 5, two_nodes, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_axes),           cmocka_unit_test(test_axes_refused),
      cmocka_unit_test(test_experts),        cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_derived),        cmocka_unit_test(test_check),
      cmocka_unit_test(test_draw),           cmocka_unit_test(test_talk),
      cmocka_unit_test(test_split_and_node),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
