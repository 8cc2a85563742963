"""Mirrors of Shoal's C interface, for shoal_ctypes: structures field by field as in include/shoal/*.h
(tests/numpy_provider.py compares sizes and offsets with the compiler's), and the functions of the library.

The library is found in SHOAL_LIBRARY, else where the system's linker looks.
"""

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, Union, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, \
    c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

MAX_RANK = 8

# ---- structures ---------------------------------------------------------------------------------------


class Shape(Structure):
    _fields_ = [("rank", c_int32), ("dims", c_int64 * MAX_RANK)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("shape", Shape)]


class Allocator(Structure):
    _fields_ = [("self", c_void_p), ("alloc", c_void_p), ("free", c_void_p)]


class AttrUnion(Union):
    _fields_ = [("i", c_int64), ("f", c_double), ("s", c_char_p), ("ints", c_int64 * MAX_RANK),
                ("list", POINTER(c_int64)), ("place", c_void_p)]


class AttrValue(Structure):
    _anonymous_ = ["u"]
    _fields_ = [("count", c_int32), ("u", AttrUnion)]


class AttrSchema(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("role", c_int), ("operand", c_int32), ("dim", c_int32),
                ("optional", c_bool), ("stated", c_bool), ("fallback", AttrValue), ("doc", c_char_p)]


class Attr(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("value", AttrValue)]


class CType(Structure):
    _fields_ = [("dtype", c_int), ("shape", Shape)]


class Op(Structure):
    pass


class Call(Structure):
    _fields_ = [("op", POINTER(Op)), ("input_count", c_int32), ("output_count", c_int32),
                ("inputs", POINTER(CType)), ("outputs", POINTER(CType)), ("attrs", POINTER(AttrValue))]


class DlpackTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_kind", c_int32), ("device_id", c_int32), ("rank", c_int32),
                ("element_kind", c_uint8), ("element_bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class KernelCall(Structure):
    _fields_ = [("call", POINTER(Call)), ("inputs", POINTER(Tensor)), ("outputs", POINTER(Tensor)),
                ("dlpack_inputs", POINTER(DlpackTensor)), ("dlpack_outputs", POINTER(DlpackTensor)),
                ("device_kind", c_char_p), ("device_id", c_int32), ("stream", c_void_p)]


OUTPUT_NUMBER = CFUNCTYPE(c_int32, POINTER(Op), POINTER(AttrValue))
COMPLETE = CFUNCTYPE(None, POINTER(Call), POINTER(AttrValue))
INFER = CFUNCTYPE(c_void_p, POINTER(Call), POINTER(CType))
GRADIENT = CFUNCTYPE(None, POINTER(Call), c_void_p, POINTER(c_int32), POINTER(c_int32), POINTER(c_int32),
                     POINTER(c_int32))
DECOMPOSE = CFUNCTYPE(None, POINTER(Call), c_void_p, POINTER(c_int32), POINTER(c_int32))
COST = CFUNCTYPE(None, POINTER(Call), POINTER(c_double))
WORKSPACE = CFUNCTYPE(c_int64, POINTER(Call))
INDEX_COUNT = CFUNCTYPE(c_int64, POINTER(Call), c_int32)
KERNEL = CFUNCTYPE(c_void_p, POINTER(Call), POINTER(Tensor), POINTER(Tensor), c_void_p)
PROVIDER = CFUNCTYPE(c_void_p, c_void_p, POINTER(KernelCall))

Op._fields_ = [("name", c_char_p), ("doc", c_char_p), ("input_count", c_int32), ("inputs", POINTER(c_char_p)),
               ("output_count", c_int32), ("outputs", POINTER(c_char_p)), ("variadic", c_bool), ("optional", c_int32),
               ("output_number", OUTPUT_NUMBER), ("random", c_bool), ("bounds", c_bool), ("sparse", c_bool),
               ("constrains", c_char_p), ("any_dtype", c_bool), ("jumps", c_bool), ("window", c_char_p), ("spare", c_char_p),
               ("summands", c_char_p), ("claimed", c_char_p), ("sums_summands", c_bool), ("uncut", c_char_p),
               ("nan", c_char_p), ("attr_count", c_int32), ("attrs", POINTER(AttrSchema)), ("complete", COMPLETE),
               ("infer", INFER), ("index_count", INDEX_COUNT), ("gradient", GRADIENT),
               ("decompose", DECOMPOSE), ("cost", COST), ("workspace", WORKSPACE), ("overwrite_count", c_int32),
               ("overwrites", POINTER(c_int32)), ("kernel", KERNEL), ("cases", POINTER(c_char_p)), ("user_data", c_void_p)]


class Value(Structure):
    _fields_ = [("graph", c_void_p), ("id", c_int32)]


class ModelOptions(Structure):
    _fields_ = [("allocator", Allocator), ("registry", c_void_p), ("seed", c_uint64), ("mixed", c_bool)]


class Training(Structure):
    _fields_ = [("clip_norm", c_double), ("clip_max", c_double), ("average", c_double), ("clip_before", c_bool),
                ("loss_scale", c_double), ("scale_growth", c_double), ("scale_backoff", c_double), ("scale_interval", c_int64),
                ("no_loss_scale", c_bool), ("only", c_char_p), ("name", c_char_p)]


class Sgd(Structure):
    _fields_ = [("lr", c_double), ("momentum", c_double), ("weight_decay", c_double), ("nesterov", c_int),
                ("dampening", c_double), ("lr_value", Value), ("training", Training)]


class LrSchedule(Structure):
    _fields_ = [("kind", c_char_p), ("warmup", c_int64), ("first_factor", c_double), ("steps", c_int64),
                ("last_factor", c_double), ("decay_every", c_int64), ("gamma", c_double), ("decay_steps", c_int64),
                ("curve", c_char_p), ("rise", c_double), ("div", c_double), ("final_div", c_double), ("three_phases", c_bool)]


class ParameterGroup(Structure):
    _fields_ = [("pattern", c_char_p), ("min_dims", c_int32), ("max_dims", c_int32), ("frozen", c_bool),
                ("lr_factor", c_double), ("name", c_char_p), ("lr", c_double), ("lr_value", Value),
                ("weight_decay", c_double), ("no_decay", c_bool), ("optimizer", c_char_p), ("momentum", c_double),
                ("beta1", c_double), ("beta2", c_double), ("eps", c_double)]


class Recipe(Structure):
    _fields_ = [("optimizer", c_char_p), ("lr", c_double), ("weight_decay", c_double), ("momentum", c_double),
                ("beta1", c_double), ("beta2", c_double), ("eps", c_double), ("nesterov", c_int),
                ("dampening", c_double), ("eps2", c_double), ("beta2_decay", c_double), ("clip", c_double),
                ("orthogonal_steps", c_int64), ("adjust", c_char_p),
                ("rows_are_outputs", c_bool), ("lr_value", Value), ("lr_schedule", LrSchedule), ("training", Training),
                ("groups", POINTER(ParameterGroup)), ("group_count", c_int32)]


class ZooOptions(Structure):
    _fields_ = [("settings", c_char_p), ("yaml", c_char_p), ("yaml_name", c_char_p), ("recipe", POINTER(Recipe)),
                ("allocator", Allocator)]


class ZooName(Structure):
    _fields_ = [("ours", c_char_p), ("theirs", c_char_p), ("transposed", c_bool), ("dropped", c_bool),
                ("axis", c_int32), ("from", c_int64), ("size", c_int64), ("tied", c_bool)]


class LoadReport(Structure):
    _fields_ = [("loaded", c_int64), ("cast", c_int64), ("averages", c_int64), ("missing", c_int64),
                ("extra", c_int64), ("training", c_int64), ("bytes_read", c_int64), ("missing_names", c_char * 256),
                ("extra_names", c_char * 256)]


class LoadOptions(Structure):
    _fields_ = [("training", c_bool), ("keep_missing", c_bool), ("ignore_extra", c_bool), ("cast", c_bool),
                ("averages", c_bool), ("only", c_char_p), ("report", POINTER(LoadReport))]


class SaveOptions(Structure):
    _fields_ = [("training", c_bool), ("only", c_char_p), ("dtype", c_char_p), ("shard_bytes", c_int64),
                ("async", c_bool)]


class ConvertReport(Structure):
    _fields_ = [("model", c_char * 64), ("settings", c_char * 512), ("to_shoal", c_bool), ("tensors", c_int64),
                ("bytes", c_int64), ("averages", c_int64), ("ignored", c_int64), ("ignored_names", c_char * 256)]


class ConvertOptions(Structure):
    _fields_ = [("to", c_char_p), ("model", c_char_p), ("settings", c_char_p), ("raw", c_bool),
                ("dtype", c_char_p), ("shard_bytes", c_int64), ("report", POINTER(ConvertReport)), ("allocator", Allocator)]


class Tokens(Structure):
    _fields_ = [("ids", POINTER(c_int32)), ("count", c_int64)]


TOKEN = CFUNCTYPE(c_bool, c_void_p, c_int64, c_int64, c_int32)


class GenerateOptions(Structure):
    _fields_ = [("allocator", Allocator), ("max_tokens", c_int64), ("temperature", c_double), ("top_k", c_int64),
                ("top_p", c_double), ("repetition", c_double), ("seed", c_uint64), ("stop_count", c_int64),
                ("stops", POINTER(c_int32)), ("token", TOKEN), ("token_self", c_void_p)]


class Choices(Structure):
    _fields_ = [("recompute", c_char_p), ("offload", c_char_p), ("compress", c_char_p)]


class ParallelizeOptions(Structure):
    _fields_ = [("allocator", Allocator), ("world", c_void_p), ("strategy", c_char_p), ("mesh", c_char_p),
                ("plan", c_char_p), ("cluster", c_char_p), ("strategies", c_void_p),
                ("layout_count", c_int64), ("layouts", c_void_p), ("decision_count", c_int64),
                ("decisions", c_void_p), ("choices", Choices), ("memory", c_int64), ("cache", c_char_p),
                ("offload_dir", c_char_p), ("fetches", POINTER(c_char_p)),
                ("opaque", c_bool), ("through_text", c_bool), ("dry_run", c_bool),
                ("no_compare", c_bool), ("provider", PROVIDER), ("provider_self", c_void_p), ("tap", c_void_p),
                ("tap_self", c_void_p), ("timed", c_bool), ("plan_name", c_char_p)]


class Dlpack(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p),
                ("deleter", CFUNCTYPE(None, c_void_p)), ("flags", c_uint64), ("tensor", DlpackTensor)]


MIRRORS = {  # C name -> mirror
    "shoal_shape_t": Shape, "shoal_tensor_t": Tensor, "shoal_allocator_t": Allocator,
    "shoal_attr_value_t": AttrValue, "shoal_attr_schema_t": AttrSchema, "shoal_attr_t": Attr,
    "shoal_type_t": CType, "shoal_op_t": Op, "shoal_call_t": Call, "shoal_kernel_call_t": KernelCall, "shoal_value_t": Value,
    "shoal_model_options_t": ModelOptions, "shoal_training_t": Training, "shoal_sgd_t": Sgd,
    "shoal_lr_schedule_t": LrSchedule, "shoal_parameter_group_t": ParameterGroup, "shoal_recipe_t": Recipe,
    "shoal_zoo_options_t": ZooOptions, "shoal_zoo_name_t": ZooName, "shoal_load_report_t": LoadReport,
    "shoal_load_options_t": LoadOptions, "shoal_save_options_t": SaveOptions,
    "shoal_convert_report_t": ConvertReport, "shoal_convert_options_t": ConvertOptions,
    "shoal_tokens_t": Tokens, "shoal_generate_options_t": GenerateOptions,
    "shoal_choices_t": Choices, "shoal_parallelize_options_t": ParallelizeOptions, "shoal_dlpack_tensor_t": DlpackTensor,
    "shoal_dlpack_t": Dlpack}

# ---- functions ----------------------------------------------------------------------------------------

_HERE = [c_char_p, c_int]  # file, line
_STATUS = c_void_p
_FUNCTIONS = {  # name: (result, arguments); shoal_ is left out
    "status_create": (_STATUS, [c_int, c_char_p, c_int, c_char_p, c_char_p]),
    "status_code": (c_int, [_STATUS]), "status_message": (c_char_p, [_STATUS]),
    "status_hint": (c_char_p, [_STATUS]), "status_free": (None, [_STATUS]), "code_name": (c_char_p, [c_int]),
    "allocator_system": (Allocator, []),
    "arena_create": (_STATUS, [Allocator, POINTER(c_void_p)]), "arena_free": (None, [c_void_p]),
    "registry_create": (_STATUS, [Allocator, POINTER(c_void_p)]), "registry_release": (None, [c_void_p]),
    "op_register": (_STATUS, [c_void_p, POINTER(Op)]),
    "op_find": (_STATUS, [c_void_p, c_char_p, POINTER(POINTER(Op))]),
    "op_attrs": (_STATUS, [POINTER(Op), c_int32, POINTER(Attr), c_void_p, POINTER(POINTER(AttrValue))]),
    "op_complete": (None, [POINTER(Op), c_int32, POINTER(CType), POINTER(AttrValue)]),
    "op_outputs": (c_int32, [POINTER(Op), POINTER(AttrValue)]),
    "registry_count": (c_int64, [c_void_p]), "registry_op": (POINTER(Op), [c_void_p, c_int64]),
    "emit": (None, [c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, POINTER(Attr), c_int32,
                    POINTER(c_int32)]),
    "emit_type": (CType, [c_void_p, c_int32]), "emit_fail": (None, [c_void_p, _STATUS]),
    "model_create": (_STATUS, [POINTER(ModelOptions), POINTER(c_void_p)]), "model_free": (None, [c_void_p]),
    "model_status": (_STATUS, [c_void_p]), "model_graph": (c_void_p, [c_void_p, c_char_p]),
    "model_print": (_STATUS, [c_void_p, c_void_p, POINTER(c_char_p)]),
    "value_type": (CType, [Value]),
    "input_at": (Value, [c_void_p, c_char_p, c_int, Shape, *_HERE]),
    "output_at": (None, [c_void_p, c_char_p, Value, *_HERE]),
    "state_at": (Value, [c_void_p, c_char_p, c_int, Shape, c_void_p, *_HERE]),
    "node_add_at": (None, [c_void_p, c_char_p, c_int32, POINTER(Value), c_int32, POINTER(Attr), c_int32,
                           POINTER(Value), *_HERE]),
    "gradients_at": (None, [c_void_p, Value, c_int32, POINTER(Value), POINTER(Value), *_HERE]),
    "nn_linear_at": (Value, [c_void_p, c_char_p, Value, c_int64, *_HERE]),
    "nn_cross_entropy_at": (Value, [c_void_p, Value, Value, *_HERE]),
    "minimize_sgd_at": (None, [c_void_p, Value, POINTER(Sgd), *_HERE]),
    "world_join": (_STATUS, [c_void_p, POINTER(c_void_p)]),
    "world_threads": (_STATUS, [c_void_p, c_int32, POINTER(c_void_p)]),
    "world_release": (None, [c_void_p]), "world_rank": (c_int32, [c_void_p]),
    "world_size": (c_int32, [c_void_p]),
    "parallelize": (_STATUS, [c_void_p, POINTER(ParallelizeOptions), POINTER(c_void_p)]),
    "session_free": (None, [c_void_p]), "session_wait": (_STATUS, [c_void_p]), "session_plan": (c_void_p, [c_void_p]),
    "session_rules": (c_void_p, [c_void_p]), "session_world": (c_void_p, [c_void_p]),
    "feed": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]), "run": (_STATUS, [c_void_p, c_char_p]),
    "fetch": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "session_get": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "session_set": (_STATUS, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "zoo_create": (_STATUS, [c_char_p, POINTER(ZooOptions), POINTER(c_void_p)]), "zoo_free": (None, [c_void_p]),
    "zoo_add": (None, [c_void_p, c_void_p]),
    "zoo_build": (None, [c_void_p, c_void_p, c_char_p, c_int64]), "zoo_find": (c_void_p, [c_char_p, c_void_p]),
    "zoo_names": (_STATUS, [c_void_p, c_void_p, POINTER(c_int64), POINTER(POINTER(ZooName))]),
    "load_with": (_STATUS, [c_void_p, c_char_p, POINTER(LoadOptions)]),
    "save_with": (_STATUS, [c_void_p, c_char_p, POINTER(SaveOptions)]),
    "convert": (_STATUS, [c_char_p, c_char_p, POINTER(ConvertOptions)]),
    "generate": (_STATUS, [c_void_p, c_int64, POINTER(Tokens), POINTER(GenerateOptions), c_void_p,
                           POINTER(POINTER(Tokens))]),
    "sample": (_STATUS, [POINTER(Tensor), POINTER(Tokens), POINTER(GenerateOptions), c_int64, c_int64, POINTER(c_int32)]),
    "plan_print": (_STATUS, [c_void_p, c_void_p, POINTER(c_char_p)]),
    "rules_get": (_STATUS, [c_void_p, POINTER(Call), POINTER(c_void_p)]),
    "rule_print": (_STATUS, [POINTER(Op), c_void_p, c_void_p, POINTER(c_char_p)]),
    "tensor_to_dlpack": (_STATUS, [POINTER(Tensor), c_bool, Allocator, POINTER(POINTER(Dlpack))]),
}


class _Library:
    """The functions above as attributes: lib.op_find is shoal_op_find."""

    def __init__(self):
        self._dll = ctypes.CDLL(os.environ.get("SHOAL_LIBRARY", "libshoal.so"))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._dll, "shoal_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


lib = _Library()
