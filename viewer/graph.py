"""The embedded model as ONNX graphs that a browser can run, with its gradient; needs no torch.

`build` gives two graphs over one file of weights, assets/toyworld/backbone/model.safetensors, which
they name by offsets, so that weights are stored once and as they ship, in float16. Both compute in
float32. The video is 8 frames of 96×96 pixels; a prompt of any length stands around it.

    logits      video, before, after, positions, unseen → logits
    gradient    the same and targets → logits, loss, slope

video (8, 3, 96, 96) float32, normalised. before, after (…,) int32: token ids before and after the
video's tokens. positions (3, L) float32: time, row, column. unseen (L, L) float32: 0 where a token
sees another, −1e9 where it does not. logits (L, V). targets (L, V): how much each token's negative
log likelihood counts at each place. loss () = −Σ targets · log softmax(logits); slope: its gradient
by the video.

The pass is that of transformers' Qwen2.5-VL; `tests/viewer/test_graph.py` holds them together.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.viewer.onnx_proto import (
    bytes_field,
    node_bytes,
    number_field,
    tensor_bytes,
    text_field,
    value_info_bytes,
)

WEIGHTS = "model.safetensors"
FRAMES, SIDE = 8, 96
OPSET, IR = 18, 9
FLOAT, INT32, INT64, FLOAT16 = 1, 6, 7, 10
"""Types of tensors, as onnx.proto numbers them."""
NUMPY = {FLOAT: np.float32, INT64: np.int64}


def build(folder: Path) -> dict[str, bytes]:
    """The graphs by their name, "logits" and "gradient", as .onnx files.

    folder: of the backbone, with config.json and WEIGHTS.
    """
    return {"logits": _Model(folder).logits(), "gradient": _Model(folder).gradient()}


# A graph, whose operations know how a gradient goes back through them


@dataclass(eq=False)
class Value:
    """A tensor of the graph. back: slope of the result → adds to the slopes of what it is of."""

    name: str
    back: Callable[[Value], None] | None = None
    slopes: list[Value] = field(default_factory=list)


class Graph:
    """Nodes in the order in which they run, and what is constant."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []
        self._named: dict[Any, str] = {}
        self._tape: list[Value] = []
        self._count = 0

    def op(self, kind: str, *inputs: Value | str, **attributes: Any) -> Value:
        """A node of one result."""
        self._count += 1
        out = f"v{self._count}"
        names = [z if isinstance(z, str) else z.name for z in inputs]
        self.nodes.append(node_bytes(kind, names, out, attributes))
        return Value(out)

    def constant(self, values: Any, kind: int = FLOAT) -> str:
        """A tensor that stands in the graph itself."""
        array = np.asarray(values, NUMPY[kind])
        key = (kind, array.shape, array.tobytes())
        if key not in self._named:
            self._named[key] = f"c{len(self._named)}"
            raw = bytes_field(9, array.tobytes())
            self.constants.append(tensor_bytes(self._named[key], array.shape, kind, raw))
        return self._named[key]

    def weight(self, name: str, shape: Sequence[int], offset: int) -> Value:
        """A tensor of float16 in WEIGHTS, read as float32. offset: in bytes, of the whole file."""
        if name not in self._named:
            size = 2 * int(np.prod(shape))
            where = {"location": WEIGHTS, "offset": str(offset), "length": str(size)}
            pairs = (text_field(1, key) + text_field(2, value) for key, value in where.items())
            external = b"".join(bytes_field(13, pair) for pair in pairs) + number_field(14, 1)
            self.constants.append(tensor_bytes(name, shape, FLOAT16, external))
            self._named[name] = self.op("Cast", name, to=FLOAT).name
        return Value(self._named[name])

    # operations that a slope goes back through

    def follow(self, out: Value, back: Callable[[Value], None]) -> Value:
        """The value, whose slope goes back by `back`."""
        out.back = back
        self._tape.append(out)
        return out

    def add(self, a: Value, b: Value) -> Value:
        """a + b of one shape."""

        def back(g: Value) -> None:
            a.slopes.append(g)
            b.slopes.append(g)

        return self.follow(self.op("Add", a, b), back)

    def times(self, a: Value, b: Value) -> Value:
        """a · b of one shape."""

        def back(g: Value) -> None:
            a.slopes.append(self.op("Mul", g, b))
            b.slopes.append(self.op("Mul", g, a))

        return self.follow(self.op("Mul", a, b), back)

    def shaped(self, x: Value, shape: Sequence[int], before: Sequence[int]) -> Value:
        """x with another shape; before: the one it has. A −1 in either stands for the rest."""

        def back(g: Value) -> None:
            x.slopes.append(self.op("Reshape", g, self.constant(before, INT64)))

        return self.follow(self.op("Reshape", x, self.constant(shape, INT64)), back)

    def turned(self, x: Value, order: Sequence[int]) -> Value:
        """x with its axes in another order."""

        def back(g: Value) -> None:
            x.slopes.append(self.op("Transpose", g, perm=np.argsort(order).tolist()))

        return self.follow(self.op("Transpose", x, perm=list(order)), back)

    def linear(self, x: Value, weight: Value, bias: Value | None = None) -> Value:
        """x (n, in) times weight (out, in) transposed, plus a bias (out,)."""
        out = self.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)
        return self.follow(out, lambda g: x.slopes.append(self.op("MatMul", g, weight)))

    def norm(self, x: Value, weight: Value, eps: float) -> Value:
        """Root mean square norm of each row of x (n, d)."""
        last = self.constant([-1], INT64)
        mean = self.op("ReduceMean", self.op("Mul", x, x), last, keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.constant(eps)))
        scaled = self.op("Div", x, root)

        def back(g: Value) -> None:
            own = self.op("Mul", g, weight)
            shared = self.op("ReduceMean", self.op("Mul", own, scaled), last, keepdims=1)
            along = self.op("Sub", own, self.op("Mul", scaled, shared))
            x.slopes.append(self.op("Div", along, root))

        return self.follow(self.op("Mul", scaled, weight), back)

    def silu(self, x: Value) -> Value:
        """x · sigmoid(x)."""
        s = self.op("Sigmoid", x)
        out = self.op("Mul", x, s)

        def back(g: Value) -> None:
            rest = self.op("Mul", out, self.op("Sub", self.constant(1.0), s))
            x.slopes.append(self.op("Mul", g, self.op("Add", s, rest)))

        return self.follow(out, back)

    def gelu(self, x: Value) -> Value:
        """x · Φ(x), by the error function."""
        c = self.constant
        ratio = self.op("Erf", self.op("Mul", x, c(0.5**0.5)))
        share = self.op("Mul", self.op("Add", ratio, c(1.0)), c(0.5))

        def back(g: Value) -> None:
            bell = self.op("Exp", self.op("Mul", self.op("Mul", x, x), c(-0.5)))
            rest = self.op("Mul", self.op("Mul", x, bell), c((2 * np.pi) ** -0.5))
            x.slopes.append(self.op("Mul", g, self.op("Add", share, rest)))

        return self.follow(self.op("Mul", x, share), back)

    def rotated(self, x: Value, cos: Value | str, sin: Value | str) -> Value:
        """Rotary positions of x (…, n, d); both halves of cos and sin (n, d) are equal."""
        turned = self.op("Mul", self._quarter(x), sin)
        out = self.op("Add", self.op("Mul", x, cos), turned)

        def back(g: Value) -> None:
            turned = self.op("Mul", self._quarter(g), sin)
            x.slopes.append(self.op("Sub", self.op("Mul", g, cos), turned))

        return self.follow(out, back)

    def _quarter(self, x: Value) -> Value:
        """(a, b) → (−b, a) along the last axis."""
        self._count += 1
        first, second = f"v{self._count}a", f"v{self._count}b"
        self.nodes.append(
            node_bytes("Split", [x.name], (first, second), {"axis": -1, "num_outputs": 2})
        )
        return self.op("Concat", self.op("Neg", second), first, axis=-1)

    def attend(self, q: Value, k: Value, v: Value, scale: float, unseen: str = "") -> Value:
        """Attention of q, k, v (…, n, d); unseen (n, n) is added to the scores."""
        rank = 4 if not unseen else 3
        flip = [*range(rank - 2), rank - 1, rank - 2]
        c = self.constant(scale)

        def flipped(z: Value) -> Value:
            return self.op("Transpose", z, perm=flip)

        scores = self.op("Mul", self.op("MatMul", q, flipped(k)), c)
        scores = self.op("Add", scores, unseen) if unseen else scores
        share = self.op("Softmax", scores, axis=-1)

        def back(g: Value) -> None:
            v.slopes.append(self.op("MatMul", flipped(share), g))
            own = self.op("Mul", share, self.op("MatMul", g, flipped(v)))
            total = self.op("ReduceSum", own, self.constant([-1], INT64), keepdims=1)
            slope = self.op("Mul", self.op("Sub", own, self.op("Mul", share, total)), c)
            q.slopes.append(self.op("MatMul", slope, k))
            k.slopes.append(self.op("MatMul", flipped(slope), q))

        return self.follow(self.op("MatMul", share, v), back)

    def between(self, before: Value, x: Value, after: Value, rows: int) -> Value:
        """Rows of x among others that no slope goes to."""
        out = self.op("Concat", before, x, after, axis=0)

        def back(g: Value) -> None:
            zero = self.constant([0], INT64)
            start = self.op("Slice", self.op("Shape", before), zero, self.constant([1], INT64))
            end = self.op("Add", start, self.constant([rows], INT64))
            x.slopes.append(self.op("Slice", g, start, end, zero))

        return self.follow(out, back)

    def slope_of(self, leaf: Value) -> Value:
        """What has come back to a leaf, after everything that was followed went back."""
        for value in reversed(self._tape):
            if value.slopes and value.back is not None:
                value.back(self._total(value.slopes))
        return self._total(leaf.slopes)

    def _total(self, slopes: list[Value]) -> Value:
        total = slopes[0]
        for slope in slopes[1:]:
            total = self.op("Add", total, slope)
        return total

    def file(self, inputs: dict[str, tuple[int, list[Any]]], outputs: dict[str, Value]) -> bytes:
        """The .onnx file. inputs: name → type and shape, where a text is a free length."""
        for name, value in outputs.items():
            self.nodes.append(node_bytes("Identity", [value.name], name, {}))
        graph = b"".join(
            [
                *(bytes_field(1, node) for node in self.nodes),
                text_field(2, "model"),
                *(bytes_field(5, constant) for constant in self.constants),
                *(
                    bytes_field(11, value_info_bytes(name, *about))
                    for name, about in inputs.items()
                ),
                *(bytes_field(12, value_info_bytes(name, FLOAT, None)) for name in outputs),
            ]
        )
        return number_field(1, IR) + bytes_field(7, graph) + bytes_field(8, number_field(2, OPSET))


# The model


class _Model:
    """The pass of Qwen2.5-VL over one clip and one prompt."""

    def __init__(self, folder: Path) -> None:
        self.graph = Graph()
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.sight, self.text = config["vision_config"], config["text_config"]
        with (folder / WEIGHTS).open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            self.tensors = json.loads(file.read(size))
        self.start = 8 + size
        self.inputs: dict[str, tuple[int, list[Any]]] = {
            "video": (FLOAT, [FRAMES, 3, SIDE, SIDE]),
            "before": (INT32, ["before"]),
            "after": (INT32, ["after"]),
            "positions": (FLOAT, [3, "length"]),
            "unseen": (FLOAT, ["length", "length"]),
        }

    def logits(self) -> bytes:
        return self.graph.file(self.inputs, {"logits": self._read(Value("video"))})

    def gradient(self) -> bytes:
        op, last = self.graph.op, self.graph.constant([-1], INT64)
        video, targets = Value("video"), Value("targets")
        logits = self._read(video)
        chances = op("LogSoftmax", logits, axis=-1)
        loss = op("Neg", op("ReduceSum", op("Mul", targets, chances), keepdims=0))
        total = op("ReduceSum", targets, last, keepdims=1)
        expected = op("Mul", op("Softmax", logits, axis=-1), total)
        logits.slopes.append(op("Sub", expected, targets))
        slope = self.graph.slope_of(video)
        inputs = self.inputs | {"targets": (FLOAT, ["length", self.text["vocab_size"]])}
        return self.graph.file(inputs, {"logits": logits, "loss": loss, "slope": slope})

    def _weight(self, name: str, part: int = 0, parts: int = 1) -> Value:
        """A tensor, or one of equal parts of its rows."""
        about = self.tensors[name]
        if about["dtype"] != "F16":
            raise ValueError(f"{name} is stored as {about['dtype']}, not as float16")
        begin, end = about["data_offsets"]
        rows, *rest = about["shape"]
        shape = [rows // parts, *rest]
        if len(shape) > 2:  # a convolution whose kernel is a patch
            shape = [shape[0], int(np.prod(shape[1:]))]
        offset = self.start + begin + part * (end - begin) // parts
        return self.graph.weight(f"{name}.{part}" if parts > 1 else name, shape, offset)

    def _linear(self, x: Value, name: str, part: int = 0, parts: int = 1) -> Value:
        bias = f"{name}.bias"
        shift = self._weight(bias, part, parts) if bias in self.tensors else None
        return self.graph.linear(x, self._weight(f"{name}.weight", part, parts), shift)

    def _gated(self, x: Value, name: str) -> Value:
        gate = self.graph.silu(self._linear(x, f"{name}.gate_proj"))
        up = self._linear(x, f"{name}.up_proj")
        return self._linear(self.graph.times(gate, up), f"{name}.down_proj")

    def _read(self, video: Value) -> Value:
        """Logits (L, V)."""
        graph, text = self.graph, self.text
        words = self._weight("model.embed_tokens.weight")
        before, after = (graph.op("Gather", words, name, axis=0) for name in ("before", "after"))
        seen = self._see(video)
        cells = FRAMES // self.sight["temporal_patch_size"] * (SIDE // self._cell) ** 2
        x = graph.between(before, seen, after, cells)
        width, heads = text["hidden_size"], text["num_attention_heads"]
        if text["num_key_value_heads"] != heads:
            raise ValueError("heads that share keys are not known here")
        rows, head = [-1, width], width // heads
        split = [-1, heads, head]
        turn = self._text_rotation(head)
        for layer in range(text["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            norms = (f"{name}.input_layernorm.weight", f"{name}.post_attention_layernorm.weight")
            y = graph.norm(x, self._weight(norms[0]), text["rms_norm_eps"])
            q, k, v = (
                graph.turned(
                    graph.shaped(self._linear(y, f"{name}.self_attn.{z}_proj"), split, rows),
                    (1, 0, 2),
                )
                for z in "qkv"
            )
            q, k = (graph.rotated(z, *turn) for z in (q, k))
            mixed = graph.turned(graph.attend(q, k, v, head**-0.5, "unseen"), (1, 0, 2))
            mixed = graph.shaped(mixed, rows, split)
            x = graph.add(x, self._linear(mixed, f"{name}.self_attn.o_proj"))
            y = graph.norm(x, self._weight(norms[1]), text["rms_norm_eps"])
            x = graph.add(x, self._gated(y, f"{name}.mlp"))
        x = graph.norm(x, self._weight("model.norm.weight"), text["rms_norm_eps"])
        return graph.linear(x, words)

    @property
    def _cell(self) -> int:
        """Side in pixels of what is one token."""
        return int(self.sight["patch_size"] * self.sight["spatial_merge_size"])

    def _see(self, video: Value) -> Value:
        """The video's tokens, (N, d), by time, row and column."""
        graph, sight = self.graph, self.sight
        patch, merge = sight["patch_size"], sight["spatial_merge_size"]
        time, cells = sight["temporal_patch_size"], SIDE // self._cell
        groups, width, heads = FRAMES // time, sight["hidden_size"], sight["num_heads"]
        laid = [groups, time, 3, cells, merge, patch, cells, merge, patch]
        x = graph.shaped(video, laid, [FRAMES, 3, SIDE, SIDE])
        order = (0, 3, 6, 4, 7, 2, 1, 5, 8)
        x = graph.turned(x, order)
        patches = (cells * merge) ** 2
        x = graph.shaped(x, [groups * patches, -1], [laid[i] for i in order])
        x = graph.linear(x, self._weight("visual.patch_embed.proj.weight"))
        rows, split = [groups * patches, width], [groups, patches, heads, width // heads]
        turn = self._patch_rotation(width // heads, cells, merge)
        for layer in range(sight["depth"]):
            name = f"visual.blocks.{layer}"
            y = graph.norm(x, self._weight(f"{name}.norm1.weight"), 1e-6)
            q, k, v = (
                graph.turned(
                    graph.shaped(self._linear(y, f"{name}.attn.qkv", i, 3), split, rows),
                    (0, 2, 1, 3),
                )
                for i in range(3)
            )
            q, k = (graph.rotated(z, *turn) for z in (q, k))
            mixed = graph.turned(graph.attend(q, k, v, (width // heads) ** -0.5), (0, 2, 1, 3))
            mixed = graph.shaped(mixed, rows, split)
            x = graph.add(x, self._linear(mixed, f"{name}.attn.proj"))
            y = graph.norm(x, self._weight(f"{name}.norm2.weight"), 1e-6)
            x = graph.add(x, self._gated(y, f"{name}.mlp"))
        x = graph.norm(x, self._weight("visual.merger.ln_q.weight"), 1e-6)
        x = graph.shaped(x, [-1, merge**2 * width], rows)
        x = graph.gelu(self._linear(x, "visual.merger.mlp.0"))
        return self._linear(x, "visual.merger.mlp.2")

    def _patch_rotation(self, head: int, cells: int, merge: int) -> tuple[str, str]:
        """cos and sin (patches, d) by a patch's row and column, in the order of the merger."""
        side = np.arange(cells * merge)
        rows, columns = np.meshgrid(side, side, indexing="ij")
        theta = self.sight["rope_parameters"]["rope_theta"]
        frequency = theta ** -(np.arange(0, head // 2, 2) / (head // 2))
        angles = [
            z.reshape(cells, merge, cells, merge).transpose(0, 2, 1, 3).reshape(-1, 1) * frequency
            for z in (rows, columns)
        ]
        angle: NDArray[Any] = np.concatenate(angles + angles, -1)
        return self.graph.constant(np.cos(angle)), self.graph.constant(np.sin(angle))

    def _text_rotation(self, head: int) -> tuple[Value, Value]:
        """cos and sin (L, d): the first angles turn with time, then rows, then columns."""
        about, op = self.text["rope_parameters"], self.graph.op
        axis = np.repeat(np.arange(3), about["mrope_section"])
        frequency = float(about["rope_theta"]) ** -(np.arange(0, head, 2) / head)
        places = op("Gather", "positions", self.graph.constant(axis, INT64), axis=0)
        angle = op("Mul", op("Transpose", places, perm=[1, 0]), self.graph.constant(frequency))
        angle = op("Concat", angle, angle, axis=-1)
        return op("Cos", angle), op("Sin", angle)


# onnx.proto, written by hand: each part is a field's number, its kind and its content
