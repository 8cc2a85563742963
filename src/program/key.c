// See key.h.
#include "program/key.h"

void shoal_key_add_type(shoal_key_t *key, const shoal_type_t *type) {
  shoal_key_add(key, (int64_t)type->dtype * 64 + type->shape.rank);
  for (int32_t d = 0; d < type->shape.rank; ++d) shoal_key_add(key, type->shape.dims[d]);
}

void shoal_key_add_op(shoal_key_t *key, const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  shoal_key_add_pointer(key, op);
  for (int32_t a = 0; a < op->attr_count; ++a) {
    switch (op->attrs[a].kind) {
      case SHOAL_ATTR_INTS:
        shoal_key_add(key, attrs[a].count);
        for (int32_t i = 0; i < attrs[a].count; ++i)
          shoal_key_add(key, shoal_attr_list(&attrs[a])[i]);
        break;
      case SHOAL_ATTR_REAL:
        shoal_key_add_real(key, attrs[a].f);
        break;
      case SHOAL_ATTR_STRING:
        shoal_key_add_string(key, attrs[a].s);
        break;
      case SHOAL_ATTR_PLACE:
        shoal_key_add_pointer(key, attrs[a].place);
        break;
      case SHOAL_ATTR_INT:
      case SHOAL_ATTR_DTYPE:
        shoal_key_add(key, attrs[a].i);
        break;
    }
  }
}
