// Shoal, session: runs a model on all ranks of a world.
//
// A session is asynchronous. shoal_run enqueues a graph and returns while it runs; the next batch
// can be fed and the next run enqueued meanwhile, and at most two runs are under way. Who waits:
//
//   shoal_feed           copies the data; waits only while both of its two copies are in use
//   shoal_run            waits for the end of the run before the last; the first run of a graph
//                        waits for everything and for the other ranks
//   shoal_fetch          waits for one value of the last run; gathers it first if it is large
//   shoal_session_wait   waits for everything; so do get, set, save, load
//   ranks                wait for each other where the program moves data between them
//
//   for (int64_t step = 1; !status && step <= steps; ++step) {
//     status = shoal_feed(s, "x", batch, sizeof batch);  // copied: `batch` may be filled again
//     if (!status) status = shoal_run(s, "train");       // returns before the step has run
//     if (step % 100 != 0) continue;                     // the next step is fed beside this one
//     if (!status) status = shoal_fetch(s, "loss", &loss, sizeof loss);  // of this very step
//   }
//   if (!status) status = shoal_session_wait(s);
//
// Only the last run's values can be fetched: who wants the loss of every step fetches after every
// run. All data that is given to a call or returned by it is the caller's again when it returns.
// One thread at a time uses a session; taps and providers are called on other threads, those of the
// device's queues.
//
// An error that comes up in the middle of a run *sticks*: the next call of this rank returns it,
// whichever that is but shoal_feed, and so do all that follow, on every rank. States may be half
// updated then, and nothing is left to do but to free the session.
#ifndef SHOAL_SESSION_H_
#define SHOAL_SESSION_H_

#include "shoal/checkpoint.h"
#include "shoal/comm.h"
#include "shoal/device.h"
#include "shoal/graph.h"
#include "shoal/plan.h"
#include "shoal/planners.h"
#include "shoal/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_session shoal_session_t;

// Called after an instruction has written a value, on the thread of the queue that the instruction
// lies on; by one thread of the rank at a time. `data` is the rank's part, packed dense. Values
// come in the order of the queue; those of different queues are ordered only as far as the
// instructions wait for each other. The queue waits while it is called: it must not call the
// session.
typedef void (*shoal_tap_fn_t)(void *self, int32_t rank, const char *graph, const char *value,
                               const shoal_layout_t *layout, const shoal_type_t *whole,
                               int64_t micro, const void *data, int64_t bytes);

// What shoal_parallelize is asked for; all zero is the default. Texts and arrays are read during
// the call and may be freed after it. `world` is retained; `provider_self` and `tap_self` must
// outlive the session.
typedef struct shoal_parallelize_options {
  shoal_allocator_t allocator;  // zero: the system's
  shoal_world_t *world;         // NULL: joins the environment's
  // One of the strategies that `shoal strategies` lists (docs/strategies.md), or several combined,
  // "tensor+zero1": "data", "zero1", "zero2", "zero3", "hybrid-zero", "tensor", "sequence",
  // "context", "spatial", "channel", "expert", "pipeline", "uniform-pipeline", "annotated" (as
  // shoal_with_replicate, shoal_with_split and shoal_with_stage say in the model). Alone only:
  // "explicit" (as `layouts` say), "single" (all on rank 0) and "auto" (the fastest of a few, by
  // simulation). NULL: "annotated" for a model with replicated or split parts, "auto" for others.
  const char *strategy;
  // "data=2,pipe=2,micro=3": how many ranks there are along each axis that the strategies use, and
  // into how many micro-batches the batch is cut. NULL: all ranks along the strategy's own axis.
  const char *mesh;
  const char *plan;                // text of a plan file; overrides strategy and mesh
  const char *cluster;             // path of a cluster file, or a preset
  shoal_strategies_t *strategies;  // with strategies of your own; NULL: native ones only. Borrowed
  int64_t layout_count;            // layouts on top of the strategy's
  const shoal_intent_entry_t *layouts;
  int64_t decision_count;  // decisions on top of the strategy's or the plan's: see plan.h
  const shoal_intent_decision_t *decisions;
  shoal_choices_t choices;  // what to recompute, offload, compress, in words: see planners.h
  int64_t memory;  // bytes of device memory that a rank may use: a plan that needs more is refused;
                   // 0: what the cluster says, or any number
  const char *cache;        // folder of plans made before (planners.h); NULL: $SHOAL_CACHE, or none
  const char *offload_dir;  // folder for what a plan keeps in files, with room for it; NULL:
                            // $SHOAL_OFFLOAD_DIR, $TMPDIR or /tmp. Nothing stays there
  const char *const *fetches;  // names of further values to fetch, NULL-terminated
  bool opaque;                 // CPU device in opaque mode: see device.h
  bool through_text;           // run from the re-parsed text of plan and program
  bool dry_run;     // plan, lower, check - and stop: runs return OK without doing anything
  bool no_compare;  // what ranks feed and set alike is not compared between them
  // Executes ops without a kernel, on a queue's thread (device.h); also asked, on the caller's, how
  // they may be cut.
  shoal_provider_fn_t provider;
  void *provider_self;
  shoal_tap_fn_t tap;
  void *tap_self;
  bool timed;             // measure every instruction, for shoal_session_times; costs a little
  const char *plan_name;  // what errors call the text of .plan, such as its file; NULL: "plan"
} shoal_parallelize_options_t;

// Plans, lowers, checks, loads and initialises (runs "init"). NULL options are all defaults. The
// caller owns the session, frees it with shoal_session_free, and keeps the model until then: the
// session's plan refers to it. *Collective*, blocking. On error every rank gets it. Rank 0 plans
// and gives its program to the others, however long that takes: only there are strategies called,
// and providers asked how ops may be cut. Every rank must bring the same model with the same seed,
// the same registered ops and the same options about planning: else all get a MISMATCH that names
// the lowest rank that differs from rank 0, in what, and where.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_parallelize(const shoal_model_t *model, const shoal_parallelize_options_t *options,
                  shoal_session_t **out_session);
// Loads a given program instead (it is checked, and must outlive the session) and runs its "init",
// if it has one. Of the options, those about planning are not looked at. *Collective.*
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_session_create(const shoal_program_t *program, const shoal_parallelize_options_t *options,
                     shoal_session_t **out_session);
// Waits for what this rank has enqueued; its errors are lost. NULL is allowed. Not collective.
SHOAL_API void shoal_session_free(shoal_session_t *session);

// Feeds the whole batch (every rank the same), or only this rank's part, for the next run. The data
// is copied and stays until it is fed again; where several graphs have an input of that name, those
// of that size are fed. A part is what the rank's boxes hold (halos included), packed dense:
// micro-batch 0's, then micro-batch 1's, and so on. `size` is checked. There is room for what the
// last run was fed and for the next one's: waits at most until the device has taken what the run
// before the last was fed. Not collective.
//
// Unless the options say no_compare, ranks compare what they were fed alike: wholes, and parts that
// several ranks hold; all of up to 64 KiB, of more a fixed pattern of as much. A difference is a
// MISMATCH on every rank, which names the input and who differs. The first run of a graph (see
// shoal_run) compares before it does anything: the right data can be fed then. Later ones compare
// beside the runs: the error comes up to 32 runs later, names the runs in question, and sticks. Not
// compared: elements that ranks hold within parts that differ (halos), and wholes with parts.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_feed(shoal_session_t *session, const char *name,
                                                   const void *data, size_t size);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_feed_part(shoal_session_t *session, const char *name,
                                                        const void *data, size_t size);
// Which rows of an input of a graph this rank needs: intervals along its dim 0 (of a scalar: one
// row), ascending, disjoint, in the arena; none where the rank takes no part, and in a dry run. Not
// collective. NOT_FOUND: there is no such input.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_rows(const shoal_session_t *session,
                                                           const char *graph, const char *input,
                                                           shoal_arena_t *arena, int64_t *out_count,
                                                           const shoal_interval_t **out_rows);
// As shoal_feed, but of the batch in `data` only those rows are looked at that this rank needs: the
// others need not be read from where they lie. However it is cut, `data` has the whole's shape.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_feed_rows(shoal_session_t *session, const char *name,
                                                        const void *data, size_t size);
// Enqueues a run of a graph, and returns. At most two runs are under way: waits for the end of the
// run before the last. *Collective*: all ranks make the same calls in the same order.
//
// The first run of a graph - after another graph's, or after any collective call but shoal_run -
// waits for everything enqueued, and for the other ranks. Errors that it finds are the same on all
// ranks, and nothing has run then: no such graph, an input that was not fed, ranks that were fed
// different data, ranks that make another collective call or one with another name (MISMATCH, which
// says who calls what).
//
// The runs that follow wait for nobody. Instead, every n runs, the ranks agree beside them that all
// is well, and hear of it n runs later: n is 16, or as many runs as take a second if those are
// fewer, and starts from 1. A rank that makes another collective call then finds out that the
// others have run on (MISMATCH, on all ranks). What goes wrong in the middle of a run sticks, and
// breaks the world.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_run(shoal_session_t *session, const char *graph);
// Gives the value that one device would have computed, on every rank: any output, and other values
// if they were asked for at creation. It is that of the last run that was enqueued; waits for it,
// not for the rest of that run. If several graphs have an output of that name, it is that of the
// graph that ran last. `size` is checked. Not collective, unless the output is gathered on request.
//
// *On request* are outputs larger than 1 MiB where there are several ranks, and those that the plan
// decides so (`fetch NAME request` or `always`: docs/plan.md). A run leaves them as they lie on the
// ranks. Their fetch gathers the whole into `data` of every rank, through the memory of hosts: it
// is *Collective*, waits for everything, and the next run begins with a meeting, as after any
// collective call; an error on one rank is an error on all. `shoal explain` lists them, and so do
// the outputs of shoal_session_program (on_request).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_fetch(shoal_session_t *session, const char *name,
                                                    void *data, size_t size);
// Waits for all that was enqueued, on every rank, and returns the first error. *Collective.*
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_wait(shoal_session_t *session);
// What the runs of a graph (NULL: "train") took so far, instruction by instruction, and the link
// between the first two ranks, measured now: the text of a times file, for shoal_times_parse, in
// the arena. Runs before the second of a graph do not count; those that follow each other overlap,
// and count from the end of one to the end of the next. Needs `timed`. *Collective*, blocking.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_times(shoal_session_t *session,
                                                            const char *graph, shoal_arena_t *arena,
                                                            const char **out_text);
// Reads or sets a whole state. *Collective.* Every rank sets the same value: compared as feeds are,
// and after a MISMATCH the state is as it was.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_get(shoal_session_t *session,
                                                          const char *state, void *data,
                                                          size_t size);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_set(shoal_session_t *session,
                                                          const char *state, const void *data,
                                                          size_t size);
// Read and set the part (shard) of a state that this rank holds, in the layout in which the state
// rests: the elements of its boxes (shoal_session_boxes), halos included, packed dense. Nothing
// moves between ranks, so no rank needs memory for the whole. A rank that holds nothing gives a
// size of 0. *Collective*: every rank reads or sets its part. Ranks that hold the same part must
// set the same values, which are compared unless the options say no_compare: a MISMATCH names two
// ranks that differ, and the state stays as it was. Sizes are checked on all ranks before anything
// is set.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_get_part(shoal_session_t *session,
                                                               const char *state, void *data,
                                                               size_t size);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_set_part(shoal_session_t *session,
                                                               const char *state, const void *data,
                                                               size_t size);
// Which elements of a state this rank holds, in the arena: shoal_boxes_shape gives the part's
// shape, shoal_boxes_pack and _unpack copy between it and a whole. A rank that holds nothing gets
// an empty flat range. Not collective. NOT_FOUND: there is no such state.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_boxes(const shoal_session_t *session,
                                                            const char *state, shoal_arena_t *arena,
                                                            shoal_boxes_t *out_boxes);
// MISMATCH where one of these states has a value that is NaN or infinite, and names it. Each rank
// looks at the part that it holds. *Collective.*
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_check_finite(shoal_session_t *session,
                                                                   int64_t count,
                                                                   const char *const *states);
// Checkpoint: a directory with model.safetensors in one-device shapes and names; written
// atomically, loads on any mesh. Every rank writes and reads its own parts, in memory for one of
// them at a time. More than 5 GB lie in several files, model-00001-of-00003 and so
// on, with model.safetensors.index.json, as Hugging Face has them. All ranks give the same path,
// and it must mean the same folder on all of their machines (a shared file system): NOT_FOUND if a
// rank does not see the files that rank 0 made, and names its host. For loading it may also be a
// .safetensors file or an index. *Collective*, blocking; an error on one rank is an error on all.
//
// shoal_save writes every saved state and shoal_load sets every one: to go on as if never stopped.
// A model without an optimizer passes over what the checkpoint has of one.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_save(shoal_session_t *session, const char *path);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_load(shoal_session_t *session, const char *path);
// The weights alone, or as the options say (checkpoint.h). Nothing is set unless all that the
// options ask for is there, and undamaged. NULL options are the default. *Collective.*
//
// With `async`, shoal_save_with copies what this rank writes and returns; a thread writes the copy
// while runs go on. The files have the same bits. One such save is under way at a time: the next
// save, a load, shoal_session_wait and shoal_session_free wait for it. If it fails, one of the next
// calls (never shoal_feed or shoal_fetch) returns the error, the same call on every rank; a run
// that returns it has not begun. The session can be used on after that, and the checkpoint before
// it is whole.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_save_with(shoal_session_t *session, const char *path,
                                                        const shoal_save_options_t *options);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_load_with(shoal_session_t *session, const char *path,
                                                        const shoal_load_options_t *options);

// A text that checkpoints saved from now on carry in their metadata, under a name of letters,
// digits and '_' other than those of states; both are copied, and NULL takes it away. Read with
// shoal_checkpoint_note. Rank 0's count; others may give the same. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_note(shoal_session_t *session,
                                                           const char *name, const char *text);

// From now on SIGTERM and SIGINT do not end this process: when one of the ranks got one,
// shoal_session_should_stop says so on all of them after the same run, so that they can save and
// leave together. That takes two of the agreements that shoal_run describes: at most 2 n runs, 32
// if they are quick and 2 if each takes a second or more; one rank alone: the next run. A second
// signal ends the process. *Collective.*
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_session_catch_signals(shoal_session_t *session);
SHOAL_API bool shoal_session_should_stop(const shoal_session_t *session);

// What the session runs on and from, borrowed for its life. Rank 0 has the plan; it is NULL on the
// others, and where a program was given.
SHOAL_API shoal_world_t *shoal_session_world(const shoal_session_t *session);
SHOAL_API const shoal_plan_t *shoal_session_plan(const shoal_session_t *session);
// Says whether the given plan file was made for another model, other rules or another number of
// ranks, so that only its intent was used.
SHOAL_API bool shoal_session_rebuilt_plan(const shoal_session_t *session);
// What became of the cache of plans, on rank 0. Borrowed.
SHOAL_API const shoal_cache_note_t *shoal_session_cache_note(const shoal_session_t *session);
SHOAL_API const shoal_program_t *shoal_session_program(const shoal_session_t *session);
// The rules that the plan was made from, to ask how calls may be cut; NULL where there is no plan.
SHOAL_API shoal_rules_t *shoal_session_rules(const shoal_session_t *session);

typedef struct shoal_memory_report {
  // Bytes by kind of memory; touched: -1 where the device cannot tell.
  int64_t arena_planned[SHOAL_MEMORY_COUNT], arena_touched[SHOAL_MEMORY_COUNT];
  // Bytes beside the arenas: program, plan and tables, slots of feeds and fetches, messages under
  // way, stacks of queues. All of it is there when the session has been made, and steady runs add
  // nothing. (The world's own memory is not the session's.)
  int64_t fixed;
  // Bytes of host memory that an asynchronous save of all states (shoal_save_options_t.async) takes
  // while it is under way, beside what is fixed.
  int64_t saving;
  int64_t allocations;  // by this session since its creation
  // Whether the file system of the folder allows what lies in a file to go past the system's page
  // cache (direct I/O).
  bool direct;
  // Copies from and to the file, in one run of every graph, and how many of them go past the page
  // cache: those of 64 KiB and more, where it is allowed.
  int64_t file_copies, direct_copies;
} shoal_memory_report_t;
// This rank's memory so far; waits for its runs. Not collective.
SHOAL_API shoal_memory_report_t shoal_session_memory(const shoal_session_t *session);

// How often this rank did, since the session was made, what a steady step does not do. Steady are
// runs of the same graph with no collective call between.
typedef struct shoal_session_counters {
  int64_t runs;
  int64_t joins;        // waited for everything it had enqueued
  int64_t meetings;     // waited for the other ranks, to begin a call
  int64_t agreements;   // of a few words, beside the runs
  int64_t allocations;  // as in shoal_memory_report_t
  // Bytes of bounded values (shoal_bound) that it sent to other ranks, by their counts: of runs
  // that have ended.
  int64_t exchanged;
  // Nanoseconds that this rank communicated, waiting for others included (several queues add up),
  // and how many of these it computed nothing meanwhile: 1 - exposed / communication is the share
  // that computing hid. Of what has ended so far; feeds and fetches of the host are not counted.
  int64_t communication, exposed;
} shoal_session_counters_t;
// Does not block. Not collective.
SHOAL_API shoal_session_counters_t shoal_session_counters(const shoal_session_t *session);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_SESSION_H_
