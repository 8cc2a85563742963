"""Zoo models with their weights loaded from folders, saved, converted from and to Hugging Face's, trained, and texts
generated with them."""
import ctypes
from ctypes import POINTER, byref, c_int32, c_void_p

import numpy as np

import shoal_ctypes as shoal
from shoal_abi import ConvertOptions, ConvertReport, GenerateOptions, LoadOptions, LoadReport, SaveOptions, Tensor, \
    Tokens, ZooOptions, lib

NUMPY = {"f64": np.float64, "f32": np.float32}


class Answers:
    """A model by name in a session with graphs of these phases, of `rows` rows; use it as a context."""

    def __init__(self, name, settings, phases, rows, dtype="f64", world=None, strategy="single", recipe=None):
        self.zoo, self.model, self.dtype = c_void_p(), shoal.Model(seed=3), NUMPY[dtype]
        options = ZooOptions(settings=f"{settings} dtype={dtype}".encode())
        if recipe:
            options.recipe = ctypes.pointer(recipe)
        shoal.check(lib.zoo_create(name.encode(), byref(options), byref(self.zoo)))
        for phase in phases:
            lib.zoo_build(self.zoo, lib.model_graph(self.model.handle, phase.encode()), phase.encode(), rows)
        shoal.check(lib.model_status(self.model.handle))
        self.session = shoal.Session(self.model, world=world, strategy=strategy)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.__exit__()
        lib.zoo_free(self.zoo)

    def load(self, folder, **options):
        report = LoadReport()
        options = LoadOptions(report=ctypes.pointer(report), **options)
        shoal.check(lib.load_with(self.session.handle, str(folder).encode(), byref(options)))
        return report

    def save(self, folder, **options):
        shoal.check(lib.save_with(self.session.handle, str(folder).encode(), byref(SaveOptions(**options))))

    def run(self, graph, output, shape, **feeds):
        for name, array in feeds.items():
            self.session.feed(name, array)
        self.session.run(graph)
        return self.fetch(output, shape)

    def fetch(self, output, shape=(), dtype=None):
        return self.session.fetch(output, dtype or self.dtype, shape)

    def generate(self, prompts, **options):
        """The tokens behind each prompt."""
        arrays = [np.ascontiguousarray(p, np.int32) for p in prompts]
        given = (Tokens * len(arrays))(*[Tokens(a.ctypes.data_as(POINTER(c_int32)), len(a)) for a in arrays])
        texts = POINTER(Tokens)()
        with shoal.Arena() as arena:
            shoal.check(lib.generate(self.session.handle, len(arrays), given, byref(GenerateOptions(**options)), arena,
                                     byref(texts)))
            return [texts[i].ids[:texts[i].count] for i in range(len(arrays))]


def sample(logits, before, index, **options):
    """shoal_sample of a row of f64 logits."""
    before = np.ascontiguousarray(before, np.int32)
    tokens = Tokens(before.ctypes.data_as(POINTER(c_int32)), len(before))
    tensor = Tensor(logits.ctypes.data, shoal.F64, shoal.to_shape(logits.shape))
    token = c_int32()
    shoal.check(lib.sample(byref(tensor), byref(tokens), byref(GenerateOptions(**options)), 0, index, byref(token)))
    return token.value


def convert(source, target, **options):
    """shoal_convert; gives the model's name and settings."""
    report = ConvertReport()
    options = {key: value.encode() if isinstance(value, str) else value for key, value in options.items()}
    shoal.check(lib.convert(str(source).encode(), str(target).encode(),
                            byref(ConvertOptions(report=ctypes.pointer(report), **options))))
    return report.model.decode(), report.settings.decode()
