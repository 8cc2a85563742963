// A graph attention network (Velickovic et al., 2018) that finds the two factions of Zachary's
// karate club: 34 members, 78 friendships, and labels for two members only, the instructor and the
// president. Every member looks at its friends and itself, with weights that it learns:
//
//   e[i]     = leaky_relu(from[src[i]] + to[dst[i]])          for each directed edge i
//   alpha    = softmax of e over the edges that end at the same member
//   out[n]   = sum over the edges i to n of alpha[i] h[src[i]]
//
// Written for one device. On ranks the edges are cut, so that a member's edges lie on several of
// them, and the softmax over them is made in phases:
//
//   ./gat        shoal run -n 4 -- ./gat        shoal run -n 4 -- ./gat first/segment_softmax
#include <shoal/shoal.h>
#include <stdio.h>

enum { MEMBERS = 34, FRIENDSHIPS = 78, EDGES = 2 * FRIENDSHIPS + MEMBERS };
enum { HEADS = 4, WIDTH = 8, FACTIONS = 2, STEPS = 40 };

// Zachary, "An information flow model for conflict and fission in small groups", 1977; members
// count from 1, as there.
static const unsigned char friends[FRIENDSHIPS][2] = {
    {2, 1},   {3, 1},   {3, 2},   {4, 1},   {4, 2},   {4, 3},   {5, 1},   {6, 1},   {7, 1},
    {7, 5},   {7, 6},   {8, 1},   {8, 2},   {8, 3},   {8, 4},   {9, 1},   {9, 3},   {10, 3},
    {11, 1},  {11, 5},  {11, 6},  {12, 1},  {13, 1},  {13, 4},  {14, 1},  {14, 2},  {14, 3},
    {14, 4},  {17, 6},  {17, 7},  {18, 1},  {18, 2},  {20, 1},  {20, 2},  {22, 1},  {22, 2},
    {26, 24}, {26, 25}, {28, 3},  {28, 24}, {28, 25}, {29, 3},  {30, 24}, {30, 27}, {31, 2},
    {31, 9},  {32, 1},  {32, 25}, {32, 26}, {32, 29}, {33, 3},  {33, 9},  {33, 15}, {33, 16},
    {33, 19}, {33, 21}, {33, 23}, {33, 24}, {33, 30}, {33, 31}, {33, 32}, {34, 9},  {34, 10},
    {34, 14}, {34, 15}, {34, 16}, {34, 19}, {34, 20}, {34, 21}, {34, 23}, {34, 24}, {34, 27},
    {34, 28}, {34, 29}, {34, 30}, {34, 31}, {34, 32}, {34, 33}};
static const unsigned char instructors[] = {1,  2,  3,  4,  5,  6,  7,  8, 9,
                                            11, 12, 13, 14, 17, 18, 20, 22};

// ---- the network --------------------------------------------------------------------------------

typedef struct edges {
  shoal_value_t src, dst;
} edges_t;

static shoal_value_t vector(shoal_graph_t *g, const char *name, int64_t heads, int64_t width) {
  const shoal_state_options_t options = {.init = {SHOAL_INIT_UNIFORM, -0.5, 0.5},
                                         .trainable = true};
  return shoal_state(g, name, SHOAL_F32, SHOAL_SHAPE(heads, width), &options);
}

// What a head makes of each member: a number, [MEMBERS, heads].
static shoal_value_t score(shoal_graph_t *g, const char *name, shoal_value_t h, int64_t heads,
                           int64_t width) {
  return shoal_nn_einsum(g, "nhd,hd->nh", 2, (shoal_value_t[]){h, vector(g, name, heads, width)});
}

// x [MEMBERS, features] -> [MEMBERS, heads, width]. States name/weight [features, heads width],
// name/from and name/to [heads, width].
static shoal_value_t attend(shoal_graph_t *g, const char *name, shoal_value_t x, edges_t edges,
                            int64_t heads, int64_t width) {
  const shoal_nn_linear_options_t product = {.no_bias = true};
  const shoal_value_t flat = shoal_nn_linear_with(g, name, x, heads * width, &product);
  const shoal_value_t h = shoal_reshape(g, flat, SHOAL_SHAPE(MEMBERS, heads, width));
  shoal_scope_push(g, name);
  const shoal_value_t from = score(g, "from", h, heads, width),
                      to = score(g, "to", h, heads, width);
  const shoal_value_t e =
      shoal_add(g, shoal_gather(g, from, edges.src, 0), shoal_gather(g, to, edges.dst, 0));
  const shoal_value_t steep =
      shoal_leaky_relu_with(g, e, &(shoal_leaky_relu_options_t){.slope = 0.2});
  const shoal_value_t alpha = shoal_segment_softmax(g, steep, edges.dst, MEMBERS);
  const shoal_value_t weights = shoal_reshape(g, alpha, SHOAL_SHAPE(EDGES, heads, 1));
  const shoal_value_t sent = shoal_mul(g, weights, shoal_gather(g, h, edges.src, 0));
  const shoal_value_t out = shoal_segment_sum(g, sent, edges.dst, MEMBERS);
  shoal_scope_pop(g);
  return out;
}

static void train(shoal_graph_t *g) {
  const edges_t edges = {shoal_input(g, "src", SHOAL_I32, SHOAL_SHAPE(EDGES)),
                         shoal_input(g, "dst", SHOAL_I32, SHOAL_SHAPE(EDGES))};
  const shoal_value_t label = shoal_input(g, "label", SHOAL_I32, SHOAL_SHAPE(MEMBERS));
  const shoal_value_t faction = shoal_input(g, "faction", SHOAL_I64, SHOAL_SHAPE(MEMBERS));
  // Nothing is known of a member but who it is.
  const shoal_value_t member = shoal_iota(g, SHOAL_SHAPE(MEMBERS), 0, SHOAL_I32);
  const shoal_value_t x = shoal_one_hot(g, member, MEMBERS, SHOAL_F32);
  const shoal_value_t h = shoal_elu(g, attend(g, "first", x, edges, HEADS, WIDTH));
  const shoal_value_t joined = shoal_reshape(g, h, SHOAL_SHAPE(MEMBERS, HEADS * WIDTH));
  const shoal_value_t logits = shoal_reshape(g, attend(g, "second", joined, edges, 1, FACTIONS),
                                             SHOAL_SHAPE(MEMBERS, FACTIONS));
  const shoal_value_t loss = shoal_nn_cross_entropy_with(g, logits, label, NULL);
  const shoal_value_t right = shoal_equal(g, shoal_argmax(g, logits, 1), faction);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 5e-3, .weight_decay = 1e-2});
  shoal_output(g, "loss", loss);
  shoal_output(g, "accuracy",
               shoal_reduce_mean(g, shoal_cast(g, right, SHOAL_F32), SHOAL_SHAPE(0)));
}

// ---- the data -----------------------------------------------------------------------------------

static int32_t src[EDGES], dst[EDGES], label[MEMBERS];
static int64_t faction[MEMBERS];

// Both directions of each friendship, and everyone's own edge.
static void make_data(void) {
  for (int i = 0; i < FRIENDSHIPS; ++i) {
    src[i] = dst[FRIENDSHIPS + i] = friends[i][0] - 1;
    dst[i] = src[FRIENDSHIPS + i] = friends[i][1] - 1;
  }
  for (int n = 0; n < MEMBERS; ++n) src[2 * FRIENDSHIPS + n] = dst[2 * FRIENDSHIPS + n] = n;
  for (int n = 0; n < MEMBERS; ++n) faction[n] = 1;
  for (size_t i = 0; i < sizeof instructors; ++i) faction[instructors[i] - 1] = 0;
  for (int n = 0; n < MEMBERS; ++n) label[n] = -100;  // not known: costs nothing
  label[0] = 0, label[MEMBERS - 1] = 1;
}

// Says how a node is cut, and why.
static shoal_status_t explain(const shoal_session_t *s, const char *node) {
  shoal_arena_t *arena = NULL;
  const char *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_arena_create(shoal_allocator_system(), &arena));
  shoal_status_t status = shoal_plan_why(shoal_session_plan(s), node, arena, &text);
  if (!status) fputs(text, stdout);
  shoal_arena_free(arena);
  return status;
}

// With an argument, a node's name, it says before training how that is cut.
int main(int argc, char **argv) {
  static const shoal_intent_entry_t layouts[] = {{"src", "edge:0"}, {"dst", "edge:0"}};
  shoal_world_t *world = NULL;
  shoal_model_t *model = NULL;
  shoal_session_t *s = NULL;
  float loss = 0, first = 0, accuracy = 0;
  char mesh[32];
  shoal_status_t status = NULL;
  make_data();
  SHOAL_GOTO_IF_ERROR(status, done, shoal_world_join(NULL, &world));
  SHOAL_GOTO_IF_ERROR(status, done,
                      shoal_model_create(&(shoal_model_options_t){.seed = 1}, &model));
  train(shoal_model_graph(model, "train"));
  snprintf(mesh, sizeof mesh, "edge=%d", shoal_world_size(world));
  const shoal_parallelize_options_t options = {
      .world = world, .strategy = "explicit", .mesh = mesh, .layout_count = 2, .layouts = layouts};
  SHOAL_GOTO_IF_ERROR(status, done, shoal_parallelize(model, &options, &s));
  if (argc > 1 && shoal_world_rank(world) == 0)
    SHOAL_GOTO_IF_ERROR(status, done, explain(s, argv[1]));
  for (int step = 1; step <= STEPS; ++step) {
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "src", src, sizeof src));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "dst", dst, sizeof dst));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "label", label, sizeof label));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_feed(s, "faction", faction, sizeof faction));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_run(s, "train"));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "loss", &loss, sizeof loss));
    SHOAL_GOTO_IF_ERROR(status, done, shoal_fetch(s, "accuracy", &accuracy, sizeof accuracy));
    if (step == 1) first = loss;
    if (step % 10 == 0 && shoal_world_rank(world) == 0)
      printf("step %d loss %.3f, %.0f of %d members right\n", step, (double)loss,
             (double)accuracy * MEMBERS, MEMBERS);
  }
done:
  shoal_status_print(status, stderr);
  int code = status ? shoal_code_exit(shoal_status_code(status)) : loss < first ? 0 : 1;
  shoal_status_free(status);
  shoal_session_free(s);
  shoal_model_free(model);
  shoal_world_release(world);
  return code;
}
