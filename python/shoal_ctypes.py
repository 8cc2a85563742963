"""Shoal through ctypes: build a model, bring ops whose kernels are numpy functions, run on ranks.

Thin on purpose: no planning logic lives here. shoal_abi has the structures and functions of the C interface.
Foreign calls release the GIL, so ranks may be Python threads; callbacks take it again.

    registry = Registry()
    registry.register("user.softsign", inputs=["x"], outputs=["out"], infer=lambda types, attrs: [types[0]])
    model = Model(registry)
    g = model.graph("train")
    ...
    with Session(model, kernels={"user.softsign": softsign}) as s:      # collective
        s.feed("x", xs); s.run("train"); loss = s.fetch("loss", np.float64, ())

A kernel is f(inputs, outputs, attrs): numpy arrays over Shoal's planned buffers (through DLPack, no copy),
valid during the call only; it writes outputs in place. The same function is run by rule discovery.

The library is found in SHOAL_LIBRARY, else where the system's linker looks.
"""

import collections
import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p

import numpy as np

from shoal_abi import GRADIENT, INFER, MAX_RANK, MIRRORS, PROVIDER, Attr, AttrSchema, AttrValue, Call, CType, \
    Dlpack, ModelOptions, Op, ParallelizeOptions, Sgd, Shape, Tensor, Value, lib  # noqa: F401 (for users, too)


class Dtype(int):
    """An element type, by its number in C; as an attribute it is not taken for a plain integer."""


F64, F32, BF16, F16, I64, I32, U8, BOOL, I8, F8_E4M3, F8_E5M2 = map(Dtype, range(11))
NUMPY = {F64: np.float64, F32: np.float32, F16: np.float16, I64: np.int64, I32: np.int32, U8: np.uint8,
         BOOL: np.bool_, I8: np.int8}
INT, INTS, REAL, STRING, DTYPE, PLACE = range(6)  # kinds of attributes
INVALID_ARGUMENT, UNSUPPORTED, INTERNAL = 1, 5, 10
NO_REF = -1

Type = collections.namedtuple("Type", "dtype shape")


class Error(Exception):
    """A shoal_status_t that is not OK."""

    def __init__(self, code, message, hint=""):
        super().__init__(message + (f" ({hint})" if hint else ""))
        self.code, self.message, self.hint = code, message, hint
        self.name = lib.code_name(code).decode()


def check(status):
    """Raises what a call returned; takes the status."""
    if status:
        error = Error(lib.status_code(status), lib.status_message(status).decode(),
                      lib.status_hint(status).decode())
        lib.status_free(status)
        raise error


def _status(error, where):
    """A Python exception as a status, for callbacks: they must not raise into C."""
    if isinstance(error, Error):
        code, text = error.code, error.message
    else:
        code = INVALID_ARGUMENT if isinstance(error, ValueError) else INTERNAL
        text = f"{type(error).__name__}: {error}"
    return lib.status_create(code, b"python", 0, f"{where}: {text}".encode(), None)


def _site():
    """File and line of the first frame outside this module: builder errors blame it."""
    frame = sys._getframe(1)
    while frame.f_globals is globals():
        frame = frame.f_back
    return frame.f_code.co_filename.encode(), frame.f_lineno


def _strings(words):
    return (c_char_p * max(len(words), 1))(*[w.encode() for w in words])


class Arena:
    def __enter__(self):
        self.handle = c_void_p()
        check(lib.arena_create(lib.allocator_system(), byref(self.handle)))
        return self.handle

    def __exit__(self, *_):
        lib.arena_free(self.handle)


# ---- types, attributes, tensors -----------------------------------------------------------------------


def to_shape(dims):
    return Shape(len(dims), (c_int64 * MAX_RANK)(*dims))


def from_shape(shape):
    return tuple(shape.dims[:shape.rank])


def _types(pointer, count):
    return [Type(pointer[i].dtype, from_shape(pointer[i].shape)) for i in range(count)]


def _attr_value(value):
    """A Python value as kind and value: Dtype, int, float, str, or a list of ints."""
    if isinstance(value, Dtype):
        return DTYPE, AttrValue(i=int(value))
    if isinstance(value, bool) or isinstance(value, int):
        return INT, AttrValue(i=int(value))
    if isinstance(value, float):
        return REAL, AttrValue(f=value)
    if isinstance(value, str):
        return STRING, AttrValue(s=value.encode())
    result = AttrValue(count=len(value))
    if len(value) > MAX_RANK:
        result.list = (c_int64 * len(value))(*value)
    else:
        result.ints[:len(value)] = value
    return INTS, result


def _attrs(given):
    items = [(name.encode(), *_attr_value(value)) for name, value in given.items()]
    return (Attr * max(len(items), 1))(*[Attr(*item) for item in items])


def call_attrs(call):
    """The attributes of a call as a dict. A place is given as its address, or None for the whole."""
    result = {}
    for i in range(call.op.contents.attr_count):
        schema, value = call.op.contents.attrs[i], call.attrs[i]
        result[schema.name.decode()] = {
            INT: lambda v: v.i, DTYPE: lambda v: v.i, REAL: lambda v: v.f, PLACE: lambda v: v.place,
            STRING: lambda v: v.s.decode() if v.s else "", INTS: lambda v: tuple((v.list if v.count > MAX_RANK else v.ints)[:v.count]),
        }[schema.kind](value)
    return result


def output_count(op, **attrs):
    """How many outputs a call of this record has."""
    if not op.output_number:
        return op.output_count
    with Arena() as arena:
        values = POINTER(AttrValue)()
        check(lib.op_attrs(byref(op), len(attrs), _attrs(attrs), arena, byref(values)))
        return lib.op_outputs(byref(op), values)


_CAPSULE = b"dltensor_versioned"
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.restype, _capsule_valid.argtypes = c_int, [ctypes.py_object, c_char_p]


class _Export:
    """What np.from_dlpack asks: it takes the capsule, and with it the structure."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0  # host


def as_array(tensor, writable):
    """A numpy array over a Shoal tensor's memory: no copy, valid as long as that memory."""
    dlpack = POINTER(Dlpack)()
    check(lib.tensor_to_dlpack(byref(tensor), not writable, lib.allocator_system(), byref(dlpack)))
    capsule = _capsule_new(ctypes.cast(dlpack, c_void_p), _CAPSULE, None)
    try:
        return np.from_dlpack(_Export(capsule))
    finally:
        if _capsule_valid(capsule, _CAPSULE):  # not taken: ours to delete
            dlpack.contents.deleter(ctypes.cast(dlpack, c_void_p))


# ---- ops ----------------------------------------------------------------------------------------------


class Emitter:
    """Writes the nodes of a gradient; refs are ints, NO_REF where there is none."""

    def __init__(self, handle):
        self._handle = handle

    def __call__(self, op, *inputs, outputs=1, **attrs):
        refs = (c_int32 * outputs)()
        lib.emit(self._handle, op.encode(), len(inputs), (c_int32 * max(len(inputs), 1))(*inputs), len(attrs),
                 _attrs(attrs), outputs, refs)
        return refs[0] if outputs == 1 else list(refs)

    def type(self, ref):
        found = lib.emit_type(self._handle, ref)
        return Type(found.dtype, from_shape(found.shape))


class Registry:
    """Native ops and those registered here. Lives as long as the models that use it."""

    def __init__(self):
        self.handle = c_void_p()
        self._kept = []  # what the C records point to
        check(lib.registry_create(lib.allocator_system(), byref(self.handle)))

    def __del__(self):
        lib.registry_release(self.handle)

    def ops(self):
        """Every record in the order of registration, borrowed from this registry."""
        return [lib.registry_op(self.handle, i).contents for i in range(lib.registry_count(self.handle))]

    def register(self, name, inputs, outputs, infer, attrs=None, gradient=None, doc=""):
        """infer(types, attrs) -> types of the outputs; gradient(emit, attrs, inputs, outputs, output_grads)
        -> a ref or NO_REF per input. attrs: names with their defaults."""

        @INFER
        def infer_callback(call, out_types):
            try:
                call = call.contents
                found = infer(_types(call.inputs, call.input_count), call_attrs(call))
                for i, (dtype, shape) in enumerate(found):
                    out_types[i] = CType(dtype, to_shape(shape))
                return None
            except Exception as error:
                return _status(error, name)

        @GRADIENT
        def gradient_callback(call, emitter, inputs, outputs, output_grads, out_grads):
            try:
                call = call.contents
                found = gradient(Emitter(emitter), call_attrs(call), inputs[:call.input_count],
                                 outputs[:call.output_count], output_grads[:call.output_count])
                for i, ref in enumerate(found):
                    out_grads[i] = ref
            except Exception as error:
                lib.emit_fail(emitter, _status(error, f"gradient of {name}"))

        attrs = attrs or {}
        schema = (AttrSchema * max(len(attrs), 1))()
        for i, (key, default) in enumerate(attrs.items()):
            kind, value = _attr_value(default)
            schema[i] = AttrSchema(name=key.encode(), kind=kind, optional=True, fallback=value)
        op = Op(name=name.encode(), doc=doc.encode(), input_count=len(inputs), inputs=_strings(inputs),
                output_count=len(outputs), outputs=_strings(outputs), attr_count=len(attrs), attrs=schema,
                infer=infer_callback)
        if gradient:
            op.gradient = gradient_callback
        self._kept.append((op, schema, infer_callback, gradient_callback))
        check(lib.op_register(self.handle, byref(op)))


# ---- models -------------------------------------------------------------------------------------------


class Graph:
    """Builder calls keep the model's first error, which blames the Python line; Session raises it."""

    def __init__(self, handle):
        self._handle = handle

    def input(self, name, dtype, shape):
        return lib.input_at(self._handle, name.encode(), dtype, to_shape(shape), *_site())

    def output(self, name, value):
        lib.output_at(self._handle, name.encode(), value, *_site())

    def state(self, name, dtype, shape):
        return lib.state_at(self._handle, name.encode(), dtype, to_shape(shape), None, *_site())

    def type(self, value):
        found = lib.value_type(value)
        return Type(Dtype(found.dtype), from_shape(found.shape))

    def node(self, op, *inputs, outputs=1, **attrs):
        """None in the place of an optional input: it is left out."""
        values = (Value * outputs)()
        inputs = [Value(None, -1) if value is None else value for value in inputs]
        lib.node_add_at(self._handle, op.encode(), len(inputs), (Value * max(len(inputs), 1))(*inputs),
                        len(attrs), _attrs(attrs), outputs, values, *_site())
        return values[0] if outputs == 1 else list(values)

    def linear(self, name, x, out_features):
        return lib.nn_linear_at(self._handle, name.encode(), x, out_features, *_site())

    def cross_entropy(self, logits, labels):
        return lib.nn_cross_entropy_at(self._handle, logits, labels, *_site())

    def gradients(self, loss, wrt):
        found = (Value * len(wrt))()
        lib.gradients_at(self._handle, loss, len(wrt), (Value * len(wrt))(*wrt), found, *_site())
        return list(found)

    def minimize_sgd(self, loss, lr, momentum=0.0):
        lib.minimize_sgd_at(self._handle, loss, byref(Sgd(lr=lr, momentum=momentum)), *_site())


class Model:
    def __init__(self, registry=None, seed=0):
        self.registry = registry or Registry()
        self.handle = c_void_p()
        check(lib.model_create(byref(ModelOptions(registry=self.registry.handle, seed=seed)),
                               byref(self.handle)))

    def __del__(self):
        lib.model_free(self.handle)

    def graph(self, name):
        return Graph(lib.model_graph(self.handle, name.encode()))

    def text(self):
        check(lib.model_status(self.handle))
        with Arena() as arena:
            text = c_char_p()
            check(lib.model_print(self.handle, arena, byref(text)))
            return text.value.decode()


# ---- ranks and sessions -------------------------------------------------------------------------------


class World:
    def __init__(self, handle):
        self.handle = handle
        self.rank, self.size = lib.world_rank(handle), lib.world_size(handle)

    def __del__(self):
        lib.world_release(self.handle)


def join():
    """The world of the environment (`shoal run`), or of one rank."""
    handle = c_void_p()
    check(lib.world_join(None, byref(handle)))
    return World(handle)


def threads(count):
    """Worlds for `count` Python threads of this process."""
    handles = (c_void_p * count)()
    check(lib.world_threads(None, count, handles))
    return [World(c_void_p(handle)) for handle in handles]


class Session:
    """shoal_parallelize. Collective; use it as a context. Runs are asynchronous, and kernels are called on the threads
    of the device's queues: see shoal/session.h."""

    def __init__(self, model, world=None, kernels=None, strategy=None, mesh=None, plan=None, opaque=False,
                 through_text=False):
        self._model, self._world, self._kernels = model, world, kernels or {}
        self._provider = PROVIDER(self._execute)  # kept: C calls it as long as the session lives
        self.handle = c_void_p()
        options = ParallelizeOptions(opaque=opaque, through_text=through_text)
        options.world = world.handle if world else None
        options.strategy = strategy.encode() if strategy else None
        options.mesh = mesh.encode() if mesh else None
        options.plan = plan.encode() if plan else None
        if kernels:
            options.provider = self._provider
        check(lib.parallelize(model.handle, byref(options), byref(self.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.session_free(self.handle)
        self.handle = c_void_p()

    def _execute(self, _, kernel_call):
        name = "?"
        try:
            inputs, outputs = kernel_call.contents.inputs, kernel_call.contents.outputs
            call = kernel_call.contents.call.contents
            name = call.op.contents.name.decode()
            if name not in self._kernels:
                raise Error(UNSUPPORTED, "no kernel in Python")
            self._kernels[name]([as_array(inputs[i], False) for i in range(call.input_count)],
                                [as_array(outputs[i], True) for i in range(call.output_count)],
                                call_attrs(call))
            return None
        except Exception as error:
            return _status(error, name)

    def feed(self, name, array):
        """For the next run; the array is copied."""
        array = np.ascontiguousarray(array)
        check(lib.feed(self.handle, name.encode(), array.ctypes.data, array.nbytes))

    def run(self, graph):
        """Enqueues a run, and returns before it has ended. Collective."""
        check(lib.run(self.handle, graph.encode()))

    def fetch(self, name, dtype, shape):
        """A value of the last run; waits for it alone."""
        array = np.empty(shape, dtype)
        check(lib.fetch(self.handle, name.encode(), array.ctypes.data, array.nbytes))
        return array

    def wait(self):
        """For all that was enqueued, on every rank. Collective."""
        check(lib.session_wait(self.handle))

    def get(self, state, dtype, shape):
        array = np.empty(shape, dtype)
        check(lib.session_get(self.handle, state.encode(), array.ctypes.data, array.nbytes))
        return array

    def set(self, state, array):
        array = np.ascontiguousarray(array)
        check(lib.session_set(self.handle, state.encode(), array.ctypes.data, array.nbytes))

    def plan(self):
        """The plan as its file says it; None on ranks but 0, which plans."""
        with Arena() as arena:
            plan, text = lib.session_plan(self.handle), c_char_p()
            if not plan:  # rank 0 planned
                return None
            check(lib.plan_print(plan, arena, byref(text)))
            return text.value.decode()

    def rule(self, name, types, **attrs):
        """How op `name` may be cut on inputs of these types, as it was discovered: printed. None on ranks but 0."""
        rules = lib.session_rules(self.handle)
        if not rules:
            return None
        with Arena() as arena:
            op, values, rule, text = POINTER(Op)(), POINTER(AttrValue)(), c_void_p(), c_char_p()
            check(lib.op_find(self._model.registry.handle, name.encode(), byref(op)))
            check(lib.op_attrs(op, len(attrs), _attrs(attrs), arena, byref(values)))
            inputs = (CType * max(len(types), 1))(*[CType(dtype, to_shape(shape)) for dtype, shape in types])
            lib.op_complete(op, len(types), inputs, values)
            call = Call(op=op, input_count=len(types), output_count=op.contents.output_count, inputs=inputs,
                        attrs=values)
            check(lib.rules_get(rules, byref(call), byref(rule)))
            check(lib.rule_print(op, rule, arena, byref(text)))
            return text.value.decode()
