// Texts that checkpoints carry in their metadata: what made them, and what a program wants to know
// when it goes on from one.
#include <string.h>

#include "base/status.h"
#include "session/session_impl.h"

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return name && name[0] && !name[strspn(name, letters)];
}

static shoal_status_t keep(shoal_session_t *session, const char *name, const char *text) {
  const char *copy = text ? shoal_arena_strdup(&session->arena, text) : NULL;
  if (text && !copy) return SHOAL_OOM();
  for (int64_t i = 0; i < session->notes.count; ++i) {
    if (strcmp(session->notes.items[i].key, name) != 0) continue;
    session->notes.items[i].value = copy;
    return NULL;
  }
  const shoal_safetensors_note_t note = {shoal_arena_strdup(&session->arena, name), copy};
  return note.key && SHOAL_PUSH(&session->arena, &session->notes, note) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_session_note(shoal_session_t *session, const char *name, const char *text) {
  if (!is_name(name)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "letters, digits and '_'",
                            "'%s' is no name of a note", name ? name : "");
  }
  return keep(session, name, text);
}

shoal_status_t shoal_session_notes(shoal_session_t *session,
                                   const shoal_safetensors_note_t **out_notes, int64_t *out_count) {
  SHOAL_RETURN_IF_ERROR(keep(session, SHOAL_CHECKPOINT_NOTE, SHOAL_CHECKPOINT_FORMAT));
  if (session->has_seed) {
    const char *seed =
        shoal_arena_printf(&session->arena, "%llu", (unsigned long long)session->seed);
    if (!seed) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(keep(session, "seed", seed));
  }
  shoal_safetensors_note_t *notes =
      SHOAL_NEW(&session->arena, shoal_safetensors_note_t, session->notes.count);
  if (!notes) return SHOAL_OOM();
  *out_count = 0;
  for (int64_t i = 0; i < session->notes.count; ++i) {
    if (session->notes.items[i].value) notes[(*out_count)++] = session->notes.items[i];
  }
  *out_notes = notes;
  return NULL;
}
