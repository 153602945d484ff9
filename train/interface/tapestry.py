"""Tapestry from Python: trains models, and uses trained ones, with NumPy arrays in and out.

This file needs Python 3.9 and NumPy. It calls the C functions of libtapestry.so.0, which does what the program and
the C++ interface <tapestry/model.hpp> do, with the same bits. The library is the file that the environment variable
TAPESTRY_LIBRARY names; else libtapestry.so.0 in the folder of this file, in lib/ there, two folders above, or in a
folder *-linux-gnu of these two; else the one that the system's loader finds. Other Python threads run while a function
of it works.

Exceptions: InputError, a ValueError, for a wrong run, config, data file or text; ValueError and TypeError for wrong
arguments, such as the shape of an array or a model of another task; MemoryError; and Error, a RuntimeError, if
something fails while it runs. An exception of a callback ends the call, which raises it.
"""

from __future__ import annotations

import ctypes
import json
import operator
import os
import signal
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

__all__ = ["Error", "InputError", "Latents", "Model", "PredictedExample", "metric_columns", "read_metrics",
           "set_num_threads", "train", "train_in_memory", "version"]

PathLike = Union[str, "os.PathLike[str]"]
TakeLine = Callable[[Dict[str, Any]], Optional[bool]]  # receives a line of metrics, and returns False to stop


class Error(RuntimeError):
    """Something failed while it ran, as a file that could not be written."""


class InputError(ValueError):
    """A run, a config, a data file or a text is wrong; the message says where and what was expected."""


class Latents(NamedTuple):
    """The latent codes of N images: a normal distribution in Z dimensions for each."""
    means: np.ndarray  # (N, Z)
    log_variances: Optional[np.ndarray]  # (N, Z); None for a plain autoencoder


class PredictedExample(NamedTuple):
    """An example that was predicted."""
    place: str  # "line 7", the path of a file, or "example 0"
    cells: List[str]  # its cells, as they were given
    prediction: List[str]  # a cell for each of Model.prediction_columns; empty if there is a flaw
    flaw: str  # why it has no prediction; else ""


# --- the C functions, as <tapestry/tapestry.h> declares them ---

class _Generation(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("tokens", ctypes.c_int64), ("temperature", ctypes.c_double),
                ("top_k", ctypes.c_int64), ("top_p", ctypes.c_double), ("min_p", ctypes.c_double),
                ("repetition_penalty", ctypes.c_double), ("seed", ctypes.c_uint64),
                ("stop", ctypes.POINTER(ctypes.c_char_p)), ("stop_count", ctypes.c_size_t)]


class _Example(ctypes.Structure):
    _fields_ = [("place", ctypes.c_char_p), ("cells", ctypes.POINTER(ctypes.c_char_p)),
                ("cell_count", ctypes.c_size_t), ("prediction", ctypes.POINTER(ctypes.c_char_p)),
                ("prediction_count", ctypes.c_size_t), ("flaw", ctypes.c_char_p)]


class _Training(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("config", ctypes.c_char_p),
                ("overrides", ctypes.POINTER(ctypes.c_char_p)), ("override_count", ctypes.c_size_t),
                ("from_", ctypes.c_char_p)]


class _Data(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("names", ctypes.POINTER(ctypes.c_char_p)),
                ("name_count", ctypes.c_size_t), ("contents", ctypes.POINTER(ctypes.c_char_p)),
                ("bytes", ctypes.POINTER(ctypes.c_size_t)), ("series", ctypes.c_void_p),
                ("cells", ctypes.POINTER(ctypes.c_char_p)), ("rows", ctypes.c_size_t), ("pixels", ctypes.c_void_p),
                ("labels", ctypes.c_void_p), ("images", ctypes.c_size_t), ("channels", ctypes.c_size_t),
                ("height", ctypes.c_size_t), ("width", ctypes.c_size_t)]


_TakeText = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
_TakeExample = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Example))

# Values of tapestry_property.
(_VOCABULARY, _CONTEXT, _CHANNELS, _HEIGHT, _WIDTH, _LATENT_DIMENSIONS, _VARIATIONAL, _HORIZON, _TASK, _CLASSES,
 _SERIES, _TARGETS, _PREDICTION_COLUMNS, _EXAMPLE_FIELDS) = range(1, 15)


def _find_library() -> str:
    """Returns the path of the library, or its name alone for the system's loader."""
    name = "libtapestry.so.0"
    here = Path(__file__).resolve().parent
    above = here.parent.parent  # lib, which may have a folder for each architecture
    beside = [folder / name for folder in (here, here / "lib", *sorted((here / "lib").glob("*-linux-gnu")), above,
                                           *sorted(above.glob("*-linux-gnu")))]
    found = [str(path) for path in beside if path.exists()]
    return os.environ.get("TAPESTRY_LIBRARY") or (found[0] if found else name)


def _load_library() -> ctypes.CDLL:
    """Loads the library; its engine is the best one of the processor, which the loader chooses as for a C++ program."""
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
        library.tapestry_load
    except (OSError, AttributeError) as error:
        raise ImportError(f"{error}; set TAPESTRY_LIBRARY to the path of Tapestry's libtapestry.so.0") from None
    address, number, size, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
    texts, out_text = ctypes.POINTER(text), ctypes.POINTER(ctypes.POINTER(ctypes.c_char))
    out_size, out_int64 = ctypes.POINTER(size), ctypes.POINTER(ctypes.c_int64)
    arguments = {
        "set_threads": (number,),
        "load": (text, ctypes.POINTER(address)),
        "size": (address, number, out_int64),
        "name": (address, number, ctypes.c_int64, ctypes.POINTER(text)),
        "tokenize": (address, text, address, size, out_size),
        "detokenize": (address, address, size, out_text, out_size),
        "logits": (address, address, size, address, size),
        "generate": (address, text, ctypes.POINTER(_Generation), _TakeText, address, out_text, out_size),
        "generate_tokens": (address, address, size, ctypes.POINTER(_Generation), address, size, out_size),
        "classify_texts": (address, texts, size, address, size),
        "translate": (address, text, out_text, out_size),
        "read_pictures": (address, texts, size, address, size),
        "classify": (address, address, size, address, size),
        "encode": (address, address, size, address, address, size),
        "decode": (address, address, size, address, size),
        "reconstruct": (address, address, size, address),
        "forecast": (address, address, size, address, size),
        "forecast_at": (address, address, size, ctypes.c_int64, address, size),
        "predict_file": (address, text, _TakeExample, address),
        "predict": (address, texts, size, _TakeExample, address),
        "train": (ctypes.POINTER(_Training), text, number, _TakeText, address, ctypes.POINTER(text)),
        "train_in_memory": (ctypes.POINTER(_Training), ctypes.POINTER(_Data), text, _TakeText, address,
                            ctypes.POINTER(address)),
        "read_metrics": (text, _TakeText, address),
    }
    for name, types in arguments.items():
        function = getattr(library, "tapestry_" + name)
        function.argtypes, function.errcheck = types, _check
    library.tapestry_free.argtypes, library.tapestry_free.restype = (address,), None
    for name in ("version", "error"):
        getattr(library, "tapestry_" + name).restype = text
    return library


def _check(code: int, function: Any, arguments: Tuple[Any, ...]) -> None:
    """Raises the exception of a tapestry_code other than TAPESTRY_OK."""
    if code == 0:
        return
    message = _library.tapestry_error().decode("utf-8", "replace")
    raise {2: InputError, 3: ValueError, 4: MemoryError}.get(code, Error)(message)


_library = _load_library()


class _Callback:
    """A C function that calls a Python one. An exception stops the C function that calls it; `raised` keeps it.

    ctypes drops an exception that is raised before the first statement of a callback, where Python runs its handler of
    Ctrl-C. So Ctrl-C only sets `raised` until the C function has returned.
    """

    def __init__(self, kind: Any, take: Callable[..., Any]) -> None:
        self.raised: Optional[BaseException] = None
        self.handler: Any = None  # of Ctrl-C, outside

        def call(_user: Any, *arguments: Any) -> int:
            try:
                if self.raised is None:
                    more = take(*arguments)
                    return self.raised is None and (more is None or bool(more))  # a bool of NumPy, too
            except BaseException as error:
                self.raised = error
            return 0

        self.function = kind(call)

    def __enter__(self) -> Any:
        def interrupt(_number: int, _frame: Any) -> None:
            self.raised = KeyboardInterrupt()

        if (threading.current_thread() is threading.main_thread()
                and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            self.handler = signal.signal(signal.SIGINT, interrupt)
        return self.function

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
        if self.raised is not None:
            raise self.raised


# --- values for C ---

def _encoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{type(text).__name__} {text!r:.40}; expected a str")
    encoded = text.encode()
    if b"\0" in encoded:
        raise ValueError(f"{text!r:.40}: has a null character; remove it")
    return encoded


def _path(path: PathLike) -> bytes:
    return os.fsencode(path)


def _array_of_texts(texts: Sequence[bytes]) -> Any:
    return (ctypes.c_char_p * len(texts))(*texts)


def _list_of(texts: Any) -> List[bytes]:
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"{texts!r:.40}; expected a list of str")
    return [_encoded(text) for text in texts]


def _text(pointer: Any, count: ctypes.c_size_t) -> str:
    return ctypes.string_at(pointer, count.value).decode("utf-8", "replace")


def _array(name: str, values: Any, can_miss: bool = False) -> np.ndarray:
    """Returns an array. Masked elements are NaN if they `can_miss`; else it raises ValueError for them."""
    is_masked = np.ma.isMaskedArray
    if not (is_masked(values) or isinstance(values, (list, tuple)) and any(map(is_masked, values))):
        return np.asarray(values)
    array = np.ma.asarray(values)
    if not np.ma.is_masked(array):
        return array.data
    if not can_miss:
        raise ValueError(f"{name}: {np.ma.count_masked(array)} masked elements; expected none, fill them")
    return array.astype(np.float64).filled(np.nan) if array.dtype.kind in "fiu" else array.data


def _floats(name: str, values: Any, kinds: str = "f", can_miss: bool = False) -> np.ndarray:
    """Returns an array as float32. Raises TypeError for another dtype.kind than `kinds`."""
    array = _array(name, values, can_miss)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name}: an array of {array.dtype}; expected float32")
    with np.errstate(over="ignore"):  # C refuses what becomes infinite
        return np.ascontiguousarray(array, dtype=np.float32)


def _tokens(values: Any, name: str = "tokens") -> np.ndarray:
    """Returns integers as int32. Raises ValueError for numbers that int32 does not hold; C checks the range."""
    array = _array(name, values)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise TypeError(f"{name}: an array {array.shape} of {array.dtype}; expected integers with one axis")
    if array.dtype != np.int32 and array.size > 0 and not 0 <= array.min() <= array.max() < 1 << 31:
        raise ValueError(f"{name}: {array.min()} to {array.max()}; expected numbers from 0 on")
    return np.ascontiguousarray(array, dtype=np.int32)


def _cell(value: Any) -> bytes:
    """Returns a cell of a table; None, masked ones and the missing values of NumPy and pandas are empty ones."""
    if isinstance(value, bytes):
        raise TypeError(f"{value!r:.40}; expected a str or a number")
    is_missing = (value is None or value is np.ma.masked
                  or str(value) in ("nan", "NaT", "<NA>") and not isinstance(value, str))
    return _encoded("" if is_missing else str(value))


def _named(what: str, cells: Any, names: List[Any], fields: List[str]) -> List[Any]:
    """Returns what a mapping has for each of the fields. Raises ValueError if it lacks one."""
    missing = [field for field in fields if field not in names]
    if missing:
        raise ValueError(f"predict: {what} has {', '.join(map(str, names)) or 'nothing'}; expected "
                         f"{', '.join(missing)} as well")
    return [cells[field] for field in fields]


def _integer(name: str, value: Any, most: int, least: int = 0) -> int:
    """Returns an integer that the C type holds, because ctypes truncates others."""
    try:
        integer = operator.index(value)
    except TypeError:
        integer = least - 1
    if not least <= integer <= most:
        raise ValueError(f"{name} = {value!r:.40}; expected an integer, {least} to {most}")
    return integer


def _by_name(what: str, values: Any) -> Any:
    """Returns values by name. Raises TypeError for what is neither a mapping nor a DataFrame."""
    if not isinstance(values, Mapping) and not hasattr(values, "columns"):
        raise TypeError(f"{what}: {type(values).__name__} {values!r:.40}; expected a dict of values by name")
    return values


def _generation(tokens: int = 0, temperature: float = 1, top_k: int = 0, top_p: float = 1, min_p: float = 0,
                repetition_penalty: float = 1, seed: int = 1, stop: Sequence[str] = ()) -> _Generation:
    stops = _list_of(stop)
    return _Generation(ctypes.sizeof(_Generation), _integer("tokens", tokens, 10_000_000), temperature,
                       _integer("top_k", top_k, 10_000_000), top_p, min_p, repetition_penalty,
                       _integer("seed", seed, (1 << 64) - 1), _array_of_texts(stops), len(stops))


class Model:
    """A trained model. Several threads may use it at once, with the same results as one after the other.

    A method that the model's task does not have raises ValueError. Arrays may have any float or integer type of NumPy
    that the method names; results are float32 and int32.
    """

    def __init__(self, run: PathLike) -> None:
        """Loads a checkpoint, or the best model of a run's folder. Raises InputError if it cannot be read."""
        self._hold(ctypes.c_void_p())
        _library.tapestry_load(_path(run), ctypes.byref(self._model))

    def _hold(self, model: ctypes.c_void_p) -> None:
        """Sets the C model, which this object frees."""
        self._model = model
        self._sizes: Dict[int, int] = {}

    def __copy__(self) -> Model:
        return self  # it does not change

    def __reduce__(self) -> Any:
        raise TypeError("a Model cannot be pickled; load its run in the other process")

    def __del__(self) -> None:
        model = getattr(self, "_model", None)
        if model:
            _library.tapestry_free(model)

    def _size(self, which: int) -> int:
        if which not in self._sizes:
            size = ctypes.c_int64()
            _library.tapestry_size(self._model, which, ctypes.byref(size))
            self._sizes[which] = size.value
        return self._sizes[which]

    def _names(self, which: int) -> List[str]:
        names = []
        for i in range(self._size(which)):
            name = ctypes.c_char_p()
            _library.tapestry_name(self._model, which, i, ctypes.byref(name))
            names.append((name.value or b"").decode("utf-8", "replace"))
        return names

    def _image_shape(self) -> Tuple[int, int, int]:
        return self._size(_CHANNELS), self._size(_HEIGHT), self._size(_WIDTH)

    def _images(self, images: Any) -> np.ndarray:
        """Returns N images as float32."""
        array = _floats("images", images)
        channels, height, width = shape = self._image_shape()
        shapes = [shape, (channels * height * width,)] + ([(height, width)] if channels == 1 else [])
        if array.shape[1:] not in shapes or len(array) == 0:
            raise ValueError(f"images: an array {array.shape}; expected (N, {channels}, {height}, {width})")
        return array

    def _new(self, *shape: int) -> np.ndarray:
        return np.empty(shape, dtype=np.float32)

    # --- all tasks ---

    @property
    def task(self) -> str:
        """The name of the task: "language-model", "vae", "image-classification", "forecast", "table", ..."""
        return self._names(_TASK)[0]

    @property
    def prediction_columns(self) -> List[str]:
        """The names of the columns of a prediction: "prediction", "p:CLASS", ..., "unusual"."""
        return self._names(_PREDICTION_COLUMNS)

    @property
    def example_fields(self) -> List[str]:
        """The names of what an example consists of: columns of a table, or the column of a text."""
        return self._names(_EXAMPLE_FIELDS)

    def predict(self, data: Any,
                take: Optional[Callable[[PredictedExample], Optional[bool]]] = None) -> List[PredictedExample]:
        """Predicts examples, as `tapestry predict` does: those of a file or folder, a list of examples, or a table.

        An example in memory is a list with a cell for each of `example_fields`, or a dict of cells by these names; a
        cell is a str, or a number. A table is a dict of columns by name, or a DataFrame of pandas. Other names are left
        out. A graph or a series is predicted as a whole: give a file. If `take` is given, it receives each
        PredictedExample, returns False to stop, and the list that is returned is empty. Raises InputError if the file
        cannot be read or lacks a column, and ValueError for examples that lack a cell.
        """
        examples: List[PredictedExample] = []
        receive = take or examples.append

        def pass_on(pointer: Any) -> Any:
            one = pointer.contents
            return receive(PredictedExample(
                one.place.decode("utf-8", "replace"),
                [cell.decode("utf-8", "replace") for cell in one.cells[:one.cell_count]],
                [cell.decode("utf-8", "replace") for cell in one.prediction[:one.prediction_count]],
                one.flaw.decode("utf-8", "replace")))

        with _Callback(_TakeExample, pass_on) as function:
            if isinstance(data, (str, os.PathLike)):
                _library.tapestry_predict_file(self._model, _path(data), function, None)
            else:
                cells = self._cells(data)
                _library.tapestry_predict(self._model, _array_of_texts(cells), len(cells), function, None)
        return examples

    def _cells(self, examples: Any) -> List[bytes]:
        fields = self.example_fields
        if isinstance(examples, Mapping) or hasattr(examples, "columns"):  # a table
            columns = [list(column) for column in _named("the table", examples, list(examples), fields)]
            if any(len(column) != len(columns[0]) for column in columns):
                raise ValueError(f"predict: columns of {', '.join(str(len(column)) for column in columns)} cells; "
                                 "expected equal numbers")
            examples = zip(*columns)
        cells: List[bytes] = []
        for i, example in enumerate(examples):
            if isinstance(example, Mapping):
                example = _named(f"example {i} (from 0)", example, list(example), fields)
            if isinstance(example, (str, bytes)) or not hasattr(example, "__len__") or len(example) != len(fields):
                raise ValueError(f"predict: example {i} (from 0) is {example!r:.40}; expected a list of {len(fields)}: "
                                 f"{', '.join(fields)}")
            cells += map(_cell, example)
        return cells

    # --- language-model ---

    @property
    def vocabulary(self) -> int:
        """V, the number of tokens."""
        return self._size(_VOCABULARY)

    @property
    def context(self) -> int:
        """T, the context length in tokens; of a forecaster its input steps."""
        return self._size(_CONTEXT)

    def tokenize(self, text: str) -> np.ndarray:
        """Returns the tokens (T,) of a text, int32. Raises InputError for a character that has none."""
        encoded, count = _encoded(text), ctypes.c_size_t()
        _library.tapestry_tokenize(self._model, encoded, None, 0, ctypes.byref(count))
        tokens = np.empty(count.value, dtype=np.int32)
        _library.tapestry_tokenize(self._model, encoded, tokens.ctypes.data, tokens.size, ctypes.byref(count))
        return tokens

    def detokenize(self, tokens: Any) -> str:
        """Returns the text of tokens (T,). Raises ValueError for tokens outside [0, V)."""
        tokens, text, count = _tokens(tokens), ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()
        _library.tapestry_detokenize(self._model, tokens.ctypes.data, tokens.size, ctypes.byref(text),
                                     ctypes.byref(count))
        return _text(text, count)

    def logits(self, tokens: Any) -> np.ndarray:
        """Returns the logits (T, V) of the token after each of `tokens` (T,); a transformer reads 1 to `context`."""
        tokens = _tokens(tokens)
        logits = self._new(tokens.size, self.vocabulary)
        _library.tapestry_logits(self._model, tokens.ctypes.data, tokens.size, logits.ctypes.data, logits.size)
        return logits

    def generate(self, prompt: str = "", take: Optional[Callable[[str], Optional[bool]]] = None, **options: Any) -> str:
        """Returns the text that follows the prompt. `take` receives each piece as it is generated; False stops.

        Options: tokens (maximum number, 0: 500, or a whole name), temperature (0 to 100, 1; 0: greedy), top_k (0: all),
        top_p (0 to 1), min_p (0 to 1), repetition_penalty (1: none), seed (1), stop (texts before which it ends).
        Raises ValueError for an option out of range, and InputError for a character that has no token.
        """
        chosen, text, count = _generation(**options), ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()

        def pass_on(piece: Any, size: int) -> Any:
            return take(ctypes.string_at(piece, size).decode("utf-8", "replace")) if take else True

        with _Callback(_TakeText, pass_on) as function:  # also without `take`, so that Ctrl-C ends it
            _library.tapestry_generate(self._model, _encoded(prompt), ctypes.byref(chosen), function, None,
                                       ctypes.byref(text), ctypes.byref(count))
            return _text(text, count)

    def generate_tokens(self, prompt: Any, **options: Any) -> np.ndarray:
        """Returns the tokens, int32, that follow those of the prompt (T,). Options: those of generate() but stop."""
        prompt, chosen, count = _tokens(prompt), _generation(**options), ctypes.c_size_t()
        tokens = np.empty(chosen.tokens or max(500, self.context), dtype=np.int32)
        _library.tapestry_generate_tokens(self._model, prompt.ctypes.data, prompt.size, ctypes.byref(chosen),
                                          tokens.ctypes.data, tokens.size, ctypes.byref(count))
        return tokens[:count.value].copy()

    # --- text-classification, translation ---

    def classify_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the probabilities (N, K) of the classes `class_names` for N texts."""
        given = _list_of(texts)
        probabilities = self._new(len(given), self._size(_CLASSES))
        _library.tapestry_classify_texts(self._model, _array_of_texts(given), len(given), probabilities.ctypes.data,
                                         probabilities.size)
        return probabilities

    def translate(self, sentence: str) -> str:
        """Returns the translation of a sentence of 1 to `context` tokens."""
        text, count = ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()
        _library.tapestry_translate(self._model, _encoded(sentence), ctypes.byref(text), ctypes.byref(count))
        return _text(text, count)

    # --- vae, image-classification: images are float arrays (N, channels, height, width), scaled as in the data, 0 to
    # 1; (N, channels * height * width), and (N, height, width) of gray images, are accepted, too ---

    @property
    def channels(self) -> int:
        """1 for gray images, 3 for red, green and blue."""
        return self._size(_CHANNELS)

    @property
    def height(self) -> int:
        """The height of the images in pixels."""
        return self._size(_HEIGHT)

    @property
    def width(self) -> int:
        """The width of the images in pixels."""
        return self._size(_WIDTH)

    @property
    def class_names(self) -> List[str]:
        """The K names of the classes, of a classifier of texts as well."""
        return self._names(_CLASSES)

    @property
    def latent_dimensions(self) -> int:
        """Z, the number of dimensions of a latent code."""
        return self._size(_LATENT_DIMENSIONS)

    def read_pictures(self, paths: Sequence[PathLike]) -> np.ndarray:
        """Returns PNG or JPEG files, fitted to the size of the model's images: (N, channels, height, width)."""
        files = [_path(path) for path in paths]
        images = self._new(len(files), *self._image_shape())
        _library.tapestry_read_pictures(self._model, _array_of_texts(files), len(files), images.ctypes.data,
                                        images.size)
        return images

    def classify(self, images: Any) -> np.ndarray:
        """Returns the probabilities (N, K) of the classes `class_names` for N images."""
        given = self._images(images)
        probabilities = self._new(len(given), self._size(_CLASSES))
        _library.tapestry_classify(self._model, given.ctypes.data, given.size, probabilities.ctypes.data,
                                   probabilities.size)
        return probabilities

    def encode(self, images: Any) -> Latents:
        """Returns the latent codes of N images."""
        given = self._images(images)
        means = self._new(len(given), self.latent_dimensions)
        log_variances = np.empty_like(means) if self._size(_VARIATIONAL) else None
        _library.tapestry_encode(self._model, given.ctypes.data, given.size, means.ctypes.data,
                                 None if log_variances is None else log_variances.ctypes.data, means.size)
        return Latents(means, log_variances)

    def decode(self, latents: Any) -> np.ndarray:
        """Returns the images (N, channels, height, width) of latent codes (N, Z), which are finite."""
        given = _floats("latents", latents, "fiu")
        if given.ndim != 2 or given.shape[1] != self.latent_dimensions:
            raise ValueError(f"latents: an array {given.shape}; expected (N, {self.latent_dimensions})")
        images = self._new(len(given), *self._image_shape())
        _library.tapestry_decode(self._model, given.ctypes.data, given.size, images.ctypes.data, images.size)
        return images

    def reconstruct(self, images: Any) -> np.ndarray:
        """Returns the images (N, channels, height, width) that the means of encode() decode to."""
        given = self._images(images)
        reconstructions = self._new(len(given), *self._image_shape())
        _library.tapestry_reconstruct(self._model, given.ctypes.data, given.size, reconstructions.ctypes.data)
        return reconstructions

    # --- forecast: M series in their own units ---

    @property
    def horizon(self) -> int:
        """The number of steps of a forecast."""
        return self._size(_HORIZON)

    @property
    def series(self) -> List[str]:
        """The names of the M series."""
        return self._names(_SERIES)

    @property
    def targets(self) -> List[str]:
        """The names of the K series that are forecast."""
        return self._names(_TARGETS)

    def forecast(self, window: Any, first_step: Optional[int] = None) -> np.ndarray:
        """Maps the last `context` steps of the series (T, M) to a forecast (horizon, K).

        NaN, or a masked element, is what was not measured; a target without a measured value has the forecast NaN. A
        model with model.cycle needs `first_step`: the steps from 1970-01-01 00:00 to the first row, or the number of
        this row, from 0, if the data have no times. Raises ValueError for infinite numbers.
        """
        given = _floats("window", window, "fiu", can_miss=True)
        shape = self.context, self._size(_SERIES)
        if given.shape != shape:
            raise ValueError(f"window: an array {given.shape}; expected {shape}")
        forecast = self._new(self.horizon, self._size(_TARGETS))
        past, ahead = (self._model, given.ctypes.data, given.size), (forecast.ctypes.data, forecast.size)
        if first_step is None:
            _library.tapestry_forecast(*past, *ahead)
        else:
            _library.tapestry_forecast_at(*past, _integer("first_step", first_step, (1 << 63) - 1, -(1 << 63)), *ahead)
        return forecast


def set_num_threads(count: int) -> None:
    """Sets the number of threads of all later calls. Results do not depend on it."""
    _library.tapestry_set_threads(_integer("count", count, (1 << 31) - 1, 1))


def version() -> str:
    """Returns the version of the library: "0.1.0 (commit 4e34a53)"."""
    return _library.tapestry_version().decode()


# --- trainings ---

def _setting(key: str, value: Any) -> bytes:
    """Returns key=value, the value in TOML."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = _array(key, value).tolist()
    if isinstance(value, (bool, str, int, list, tuple)):
        return _encoded(f"{key}={json.dumps(value, ensure_ascii=False)}")  # is TOML as well
    if isinstance(value, float):
        return _encoded(f"{key}={value!r}")
    return _encoded(f"{key}={json.dumps(os.fspath(value), ensure_ascii=False)}")


def _training(config: PathLike, overrides: Optional[Mapping[str, Any]], start: Optional[PathLike]) -> _Training:
    settings = [_setting(key, value) for key, value in _by_name("overrides", overrides or {}).items()]
    return _Training(ctypes.sizeof(_Training), _path(config), _array_of_texts(settings), len(settings),
                     None if start is None else _path(start))


def _receiver(callback: Optional[TakeLine]) -> _Callback:
    """Returns a callback of lines of JSON."""
    def pass_on(text: Any, size: int) -> Any:
        return callback(json.loads(ctypes.string_at(text, size))) if callback else True

    return _Callback(_TakeText, pass_on)  # also without a callback, so that Ctrl-C ends the training


def train(config: PathLike, overrides: Optional[Mapping[str, Any]] = None, callback: Optional[TakeLine] = None, *,
          run: Optional[PathLike] = None, resume: bool = False, start: Optional[PathLike] = None) -> str:
    """Trains as `tapestry train` does, into a run's folder with the same files, and returns its path.

    `config` is a TOML file or the name of a shipped config; `overrides` change its keys: {"train.steps": 100}. `run` is
    the folder; without it runs/NAME, or the first unused one of runs/NAME-2, runs/NAME-3, ... `start` is a run or
    checkpoint whose weights and [model] section the training starts from. The callback receives each line that
    read_metrics() returns, and {"message": ...} for a note to the user; if it returns False, the training ends after
    its step with a checkpoint, and `resume` continues it. Raises InputError for a wrong config, folder or data, and
    Error for a training that fails, as one whose loss is not finite.
    """
    chosen, folder = _training(config, overrides, start), ctypes.c_char_p()
    with _receiver(callback) as function:
        _library.tapestry_train(ctypes.byref(chosen), None if run is None else _path(run), bool(resume), function, None,
                                ctypes.byref(folder))
    return os.fsdecode(folder.value or b"")


def train_in_memory(config: PathLike, overrides: Optional[Mapping[str, Any]] = None,
                    callback: Optional[TakeLine] = None, *, series: Optional[Mapping[str, Any]] = None,
                    images: Any = None, labels: Any = None, table: Optional[Mapping[str, Sequence[Any]]] = None,
                    files: Optional[Mapping[str, Union[str, bytes]]] = None, checkpoint: Optional[PathLike] = None,
                    start: Optional[PathLike] = None) -> Model:
    """Trains on data in memory, without files, and returns the model with the last weights.

    The data are one of: `series`, columns of numbers by name, NaN or masked where nothing was measured (task forecast);
    `images` (N, channels, height, width), or (N, height, width) of gray ones, 0 to 1, with `labels` (N) from 0 on,
    which an autoencoder does not need; `table`, columns of str or numbers by name (tasks table, text-classification);
    `files`, texts or bytes by name, as files of these names have them. Without data, those of the config are read.
    `checkpoint` is a file to write at the end, which Model() and `tapestry` read. The other arguments are those of
    train().
    """
    given = {"series": series, "images": images, "table": table, "files": files}
    kinds = [name for name, value in given.items() if value is not None]
    if len(kinds) > 1 or (labels is not None and kinds != ["images"]):
        raise ValueError(f"train_in_memory: {' and '.join(kinds) or 'labels'}; expected one of series, images, table, "
                         "files; labels are of images")
    data, kept = _Data(ctypes.sizeof(_Data)), None
    if series is not None:
        kept = _set_series(data, series)  # until C has read it
    if images is not None:
        kept = _set_images(data, images, labels)
    if table is not None:
        _set_table(data, table)
    if files is not None:
        _set_files(data, files)
    chosen, model = _training(config, overrides, start), Model.__new__(Model)
    model._hold(ctypes.c_void_p())
    with _receiver(callback) as function:
        _library.tapestry_train_in_memory(ctypes.byref(chosen), ctypes.byref(data),
                                          None if checkpoint is None else _path(checkpoint), function, None,
                                          ctypes.byref(model._model))
    del kept
    return model


def _set_names(data: _Data, names: Sequence[str]) -> None:
    data.names, data.name_count = _array_of_texts([_encoded(name) for name in names]), len(names)


def _set_series(data: _Data, series: Mapping[str, Any]) -> np.ndarray:
    columns = {key: _array(f"series {key}", series[key], can_miss=True) for key in _by_name("series", series)}
    shapes = [column.shape for column in columns.values()]
    if not shapes or len(shapes[0]) != 1 or shapes[0] == (0,) or len(set(shapes)) > 1:
        found = ", ".join(f"{key} {column.shape}" for key, column in columns.items())
        raise ValueError(f"series: {found or 'no columns'}; expected columns (rows,) of one length, 1 or more")
    for key, column in columns.items():
        if column.dtype.kind not in "fiu":
            raise TypeError(f"series {key}: an array of {column.dtype}; expected numbers")
    values = np.ascontiguousarray(np.stack(list(columns.values()), axis=1), dtype=np.float64)
    _set_names(data, list(columns))
    data.series, data.rows = values.ctypes.data, len(values)
    return values


def _set_images(data: _Data, images: Any, labels: Any) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    pixels = _floats("images", images)
    if pixels.ndim == 3:
        pixels = pixels[:, np.newaxis]
    if pixels.ndim != 4 or pixels.size == 0:
        raise ValueError(f"images: an array {pixels.shape}; expected (N, channels, height, width)")
    data.pixels, (data.images, data.channels, data.height, data.width) = pixels.ctypes.data, pixels.shape
    if labels is None:
        return pixels, None
    classes = _tokens(labels, "labels")
    if classes.shape != (len(pixels),):
        raise ValueError(f"labels: an array {classes.shape}; expected ({len(pixels)},)")
    data.labels = classes.ctypes.data
    return pixels, classes


def _set_table(data: _Data, table: Mapping[str, Sequence[Any]]) -> None:
    columns = [list(table[name]) for name in _by_name("table", table)]  # of a DataFrame, too
    if not columns or not columns[0] or any(len(column) != len(columns[0]) for column in columns):
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(table, columns))
        raise ValueError(f"table: {lengths or 'no columns'}; expected columns of one length, 1 or more")
    _set_names(data, list(table))
    data.cells, data.rows = _array_of_texts([_cell(cell) for row in zip(*columns) for cell in row]), len(columns[0])


def _content(name: str, content: Any) -> bytes:
    """Returns the bytes of a text, or of an object with the buffer protocol that holds bytes."""
    if isinstance(content, str):
        return content.encode()
    try:
        view = memoryview(content)
    except TypeError:
        view = None
    if view is None or view.itemsize != 1:
        raise TypeError(f"files: {name}: {type(content).__name__} {content!r:.40}; expected a str or bytes")
    return view.tobytes()


def _set_files(data: _Data, files: Mapping[str, Union[str, bytes]]) -> None:
    contents = [_content(name, content) for name, content in _by_name("files", files).items()]
    if not contents:
        raise ValueError("files: none; expected one or more by name")
    _set_names(data, list(files))
    data.contents = _array_of_texts(contents)
    data.bytes = (ctypes.c_size_t * len(contents))(*map(len, contents))


def read_metrics(run: PathLike) -> List[Dict[str, Any]]:
    """Returns the lines of a run's metrics.jsonl: dicts with "step", "split" ("train", "val", "test"), "elapsed_s" and
    the metrics by name; None for a number that is not finite. The run may still be trained. Raises InputError if it
    cannot be read.
    """
    lines: List[Dict[str, Any]] = []
    with _Callback(_TakeText, lambda text, size: lines.append(json.loads(ctypes.string_at(text, size)))) as function:
        _library.tapestry_read_metrics(_path(run), function, None)
    return lines


def metric_columns(lines: Sequence[Mapping[str, Any]], split: str = "val") -> Dict[str, np.ndarray]:
    """Returns the numbers of the lines of a split as arrays by name, float64, with "step" as int64; NaN where a line
    lacks the number."""
    chosen = [line for line in lines if line["split"] == split]
    names = {name: None for line in chosen for name, value in line.items() if isinstance(value, (int, float))}
    columns = {name: np.array([line.get(name) for line in chosen], dtype=np.float64) for name in names}
    if "step" in columns:
        columns["step"] = columns["step"].astype(np.int64)
    return columns
