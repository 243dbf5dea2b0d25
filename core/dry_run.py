"""A device that does not exist: every operation runs without values, memory or a GPU.

Built on torch's fake tensors. Shapes, types and devices are those of a real run, and mixing a
tensor of this device with one on the CPU raises as it does on a GPU. Small and integer tensors,
which decide shapes, keep their values on the side; pixels, activations and weights have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from macd_studio.core.backbones.host import reading_with

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_PATCHING = RLock()
SMALL = 256
"""Elements up to which floating tensors keep their values when they come to the device."""
COMPUTED = 1 << 20
"""The same of what is computed there from known values, such as how patches are pooled."""
_UNSET = {
    torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like,
    torch.ops.aten.new_empty, torch.ops.aten.new_empty_strided,
}  # fmt: skip


@contextmanager
def dry_run(device: str) -> Iterator[DryDevice]:
    """While inside, tensors on `device` are fake, those on the CPU real.

    device: "cuda", which needs no GPU but cannot run a backward pass, or "meta", which can. What
    the host reads (`core.backbones.host`) is known or plausible: floats between 0.1 and 0.9, True,
    0. Raises whatever torch raises where a real run would mix devices.
    """
    mode = DryDevice(device)
    with _one_kernel(), mode, _Calls(mode), reading_with(mode.read):
        yield mode


class DryDevice(FakeTensorMode):  # type: ignore[no-untyped-call]
    """The mode behind `dry_run`: real tensors stay real until they are moved to the device.

    watch: called for every operation on the device, with its arguments and result.
    """

    watch: Callable[[Any, Any, dict[str, Any], Any], None] | None = None

    def __init__(self, device: str) -> None:
        super().__init__()
        self.allow_meta = True
        self.device = torch.device(device)
        self._inside = False
        self._stale: dict[int, torch.UntypedStorage] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        if self._inside:
            return self.dispatch(func, types, args, kwargs)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if not any(isinstance(t, FakeTensor) for t in tensors) and not self.is_target(kwargs):
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._as_fake, (args, kwargs))
        values = self._known_arguments(args, kwargs)
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], [p for i in args[1] for p in self._as_positions(i)])
        elif values is not None and _is_decided_by_values(func):
            return tree_map(self._as_device, func(*values[0], **values[1]))
        self._inside = True  # what torch makes on the way is fake as well
        try:
            out = self.dispatch(func, types, args, kwargs)
        finally:
            self._inside = False
        self._follow(func, values, args, out)
        if self.watch is not None:
            self.watch(func, args, kwargs, out)
        return out

    def read(self, tensor: Tensor) -> NDArray[Any]:
        """The values where they are known, else plausible ones."""
        if not isinstance(tensor, FakeTensor):
            return np.asarray(tensor.detach().numpy())
        values = self.known(tensor)
        if values is not None:
            return np.asarray(values.numpy())
        shape = tuple(tensor.shape)
        if tensor.dtype == torch.bool:
            return np.ones(shape, np.bool_)
        if not tensor.dtype.is_floating_point:
            return np.zeros(shape, np.int64)
        kind = np.float64 if tensor.dtype == torch.float64 else np.float32
        return np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(kind)

    def known(self, tensor: Tensor) -> Tensor | None:
        """The values of a tensor, on the CPU; None where it has none."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        values: Tensor | None = getattr(tensor, "known_values", None)
        stale = values is not None and values.untyped_storage()._cdata in self._stale
        return None if stale else values

    def known_or_same(self, value: Any) -> Any:
        """The values of a tensor where they are known; anything else as it is."""
        values = self.known(value) if isinstance(value, FakeTensor) else None
        return value if values is None else values

    def is_target(self, kwargs: dict[str, Any]) -> bool:
        """Whether the arguments name this device."""
        device = kwargs.get("device")
        return device is not None and torch.device(device).type == self.device.type

    def _as_fake(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
            return value
        fake: Any = self.from_tensor(value)
        if _is_kept(value):
            fake.known_values = value.detach()
        return fake

    def _as_device(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        fake: Any = FakeTensor(self, value.to("meta"), self.device)
        fake.known_values = value
        return fake

    def _as_positions(self, index: Any) -> list[Any]:
        """A mask as an index says by its values how much it selects; one (N,) without them, all."""
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            return [index]
        values = self.known(index)
        if values is None and index.ndim == 1:
            values = torch.ones(len(index))
        if values is None:
            return [index]
        return [self._as_device(at) for at in values.nonzero(as_tuple=True)]

    def _known_arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """The arguments with values instead of fake tensors; None where one has none."""
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and self.known(leaf) is None:
                return None

        def plain(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            return self.known(value) if isinstance(value, Tensor) else value

        values: tuple[Any, Any] = tree_map(plain, (args, kwargs))
        return values

    def _follow(self, func: Any, inputs: tuple[Any, Any] | None, args: Any, out: Any) -> None:
        """Computes the values of the result too, where those of the inputs are known."""
        results = [t for t in tree_leaves(out) if isinstance(t, FakeTensor)]
        random = torch.Tag.nondeterministic_seeded in func.tags
        if inputs is None or random or func.overloadpacket in _UNSET:
            if func._schema.is_mutable:
                self._forget(args)
            if func is torch.ops.aten.ne.Scalar and not args[0].dtype.is_floating_point:
                # the count of zero pixels is unknown: assume that SmolVLM drops no frame as padding
                out.known_values = torch.ones(out.shape, dtype=torch.bool)
            return
        made_of = [t for t in tree_leaves(args) if isinstance(t, Tensor)]
        if not all(_is_kept(t, COMPUTED if made_of else SMALL) for t in results):
            return
        values = [t for t in tree_leaves(func(*inputs[0], **inputs[1])) if isinstance(t, Tensor)]
        for tensor, value in zip(results, values, strict=True):
            tensor.known_values = value  # type: ignore[attr-defined]

    def _forget(self, args: Any) -> None:
        """The first argument was written to, with unknown values."""
        values = getattr(args[0], "known_values", None) if args else None
        if values is not None:
            storage = values.untyped_storage()
            self._stale[storage._cdata] = storage


class _Calls(TorchFunctionMode):
    """Calls that do not reach the dispatcher, or that reach it in another way than on a GPU."""

    def __init__(self, mode: DryDevice) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.tolist and isinstance(args[0], FakeTensor):
            values = self.mode.known(args[0])
            if values is not None:
                return values.tolist()
        if func in (torch.tensor, torch.as_tensor) and self.mode.is_target(kwargs):
            # torch would make an empty "meta" tensor without asking the mode
            plain = tree_map(self.mode.known_or_same, args)
            return func(*plain, **kwargs | {"device": "cpu"}).to(self.mode.device)
        if func is torch.Tensor.new_tensor and isinstance(args[0], FakeTensor):
            dtype = kwargs.get("dtype") or args[0].dtype
            return torch.tensor(args[1], dtype=dtype).to(self.mode.device)
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and isinstance(args[0], FakeTensor):
            raise RuntimeError("a tensor without values was read; only `to_host` may")
        return func(*args, **kwargs)


@contextmanager
def _one_kernel() -> Iterator[None]:
    """Attention over fake tensors on "meta" is one kernel, as on a GPU or a CPU.

    Left alone, torch would take the way in parts there, which keeps every weight of attention. A
    mode would not do: the way back, which computes checkpointed layers again, runs without it.
    """
    whole = F.scaled_dot_product_attention

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **more: Any,
    ) -> Tensor:
        if not isinstance(query, FakeTensor) or query.device.type != "meta":
            return whole(query, key, value, attn_mask, dropout_p, is_causal, **more)
        outputs: tuple[Tensor, ...] = _FLASH(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=more.get("scale")
        )
        return outputs[0]

    with _PATCHING:
        F.scaled_dot_product_attention = attend  # type: ignore[assignment]
        try:
            yield
        finally:
            F.scaled_dot_product_attention = whole


def _is_kept(tensor: Tensor, most: int = SMALL) -> bool:
    return not tensor.dtype.is_floating_point or tensor.numel() <= most


def _is_decided_by_values(func: Any) -> bool:
    tags = torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output
    return any(tag in func.tags for tag in tags)
