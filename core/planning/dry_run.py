"""A device that does not exist: every operation runs without values, memory or a GPU.

Built on torch's fake tensors. Shapes, types and devices are those of a real run, and mixing a
tensor of this device with one on the CPU raises as it does on a GPU. Small and integer tensors,
which decide shapes, keep their values on the side; pixels, activations and weights have none.
"""

from __future__ import annotations

import weakref
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
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from macd_studio.core.backbones.foreign import foreign_runs
from macd_studio.core.backbones.host import reading_with

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_PATCHING = RLock()
SMALL = 256
"""Elements up to which floating tensors keep their values when they come to the device."""
COMPUTED = 1 << 20
"""The same of what is computed there from known values, such as how patches are pooled."""
_MIXED = {
    torch.ops.aten.copy_, torch.ops.aten._to_copy, torch.ops.aten.index, torch.ops.aten.index_put,
    torch.ops.aten.index_put_, torch.ops.aten._index_put_impl_,
}  # fmt: skip
"""Operations that take tensors of several devices."""
_UNSET = {
    torch.ops.aten.empty, torch.ops.aten.empty_strided, torch.ops.aten.empty_like,
    torch.ops.aten.new_empty, torch.ops.aten.new_empty_strided,
}  # fmt: skip
_DECIDED_BY_VALUES = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})


@contextmanager
def dry_run(device: str) -> Iterator[DryDevice]:
    """While inside, tensors on `device` are fake, those on the CPU real.

    device: "cuda", which needs no GPU but cannot run a backward pass, or "meta", which can. What
    the host reads (`core.backbones.host`) is known or plausible: floats between 0.1 and 0.9, True,
    0. Raises whatever torch raises where a real run would mix devices.
    """
    mode: Any = _MetaDevice(device) if device == "meta" else _OtherDevice(device)
    with _one_kernel(), mode, _Calls(mode), reading_with(mode.read):
        yield mode


class DryDevice:
    """What `dry_run` yields: knows which tensors are on the device, and the values of some.

    watch: called for every operation on the device, with its arguments and result.
    """

    device: torch.device
    watch: Callable[[Any, Any, dict[str, Any], Any], None] | None = None

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def holds(self, value: Any) -> bool:
        """Whether it is a tensor on the device."""
        raise NotImplementedError

    def place(self, values: Tensor) -> Any:
        """A tensor on the device that has these values."""
        raise NotImplementedError

    def _values_of(self, tensor: Tensor) -> Tensor | None:
        raise NotImplementedError

    def _keep(self, tensor: Any, values: Tensor) -> None:
        """Notes the values of a tensor on the device."""
        raise NotImplementedError

    def _forget(self, tensor: Any) -> None:
        """A tensor on the device was written to, with unknown values."""
        raise NotImplementedError

    def run(
        self,
        func: Any,
        args: Any,
        kwargs: dict[str, Any],
        compute: Callable[[Any, Any, dict[str, Any]], Any],
    ) -> Any:
        """One operation on the device, and what is known of its result. compute: on no values."""
        values = self._known_arguments(args, kwargs)
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], [p for i in args[1] for p in self._as_positions(i)])
        elif values is not None and not _DECIDED_BY_VALUES.isdisjoint(func.tags):
            return tree_map(self._as_device, func(*values[0], **values[1]))
        out = compute(func, args, kwargs)
        self._follow(func, values, args, out)
        if self.watch is not None:
            self.watch(func, args, kwargs, out)
        return out

    def read(self, tensor: Tensor) -> NDArray[Any]:
        """The values where they are known, else plausible ones."""
        if not self.holds(tensor):
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
        if not self.holds(tensor):
            return tensor
        return self._values_of(tensor)

    def known_or_same(self, value: Any) -> Any:
        """The values of a tensor where they are known; anything else as it is."""
        values = self.known(value) if self.holds(value) else None
        return value if values is None else values

    def is_target(self, kwargs: dict[str, Any]) -> bool:
        """Whether the arguments name this device."""
        device = kwargs.get("device")
        return device is not None and torch.device(device).type == self.device.type

    def _as_device(self, value: Any) -> Any:
        return self.place(value) if isinstance(value, Tensor) else value

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
        """The arguments with values instead of tensors on the device; None where one has none."""
        if any(self.known(tensor) is None for tensor in tensors_in(args, kwargs)):
            return None

        def plain(value: Any) -> Any:
            if isinstance(value, torch.device):
                return torch.device("cpu")
            return self.known(value) if isinstance(value, Tensor) else value

        values: tuple[Any, Any] = tree_map(plain, (args, kwargs))
        return values

    def _follow(self, func: Any, inputs: tuple[Any, Any] | None, args: Any, out: Any) -> None:
        """Computes the values of the result too, where those of the inputs are known."""
        random = torch.Tag.nondeterministic_seeded in func.tags
        if inputs is None or random or func.overloadpacket in _UNSET:
            if func._schema.is_mutable:
                self._forget(args[0])
            if func is torch.ops.aten.ne.Scalar and not args[0].dtype.is_floating_point:
                # the count of zero pixels is unknown: assume that SmolVLM drops no frame as padding
                self._keep(out, torch.ones(out.shape, dtype=torch.bool))
            return
        results = [t for t in tensors_in(out) if self.holds(t)]
        most = COMPUTED if tensors_in(args) else SMALL
        if not all(_is_kept(t, most) for t in results):
            return
        values = tensors_in(func(*inputs[0], **inputs[1]))
        for tensor, value in zip(results, values, strict=True):
            self._keep(tensor, value)


class _OtherDevice(DryDevice, FakeTensorMode):  # type: ignore[no-untyped-call]
    """A device that torch has kernels for: tensors are fake ones, which raise where it would."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._inside = False
        self._stale: dict[int, torch.UntypedStorage] = {}

    def holds(self, value: Any) -> bool:
        """See `DryDevice.holds`."""
        return isinstance(value, FakeTensor)

    def place(self, values: Tensor) -> Any:
        """See `DryDevice.place`."""
        fake: Any = FakeTensor(self, values.to("meta"), self.device)
        fake.known_values = values
        return fake

    def _values_of(self, tensor: Tensor) -> Tensor | None:
        values: Tensor | None = getattr(tensor, "known_values", None)
        stale = values is not None and values.untyped_storage()._cdata in self._stale
        return None if stale else values

    def _keep(self, tensor: Any, values: Tensor) -> None:
        tensor.known_values = values

    def _forget(self, tensor: Any) -> None:
        values = getattr(tensor, "known_values", None)
        if values is not None:
            storage = values.untyped_storage()
            self._stale[storage._cdata] = storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        if self._inside:
            return self.dispatch(func, types, args, kwargs)
        if not any(map(self.holds, tensors_in(args, kwargs))) and not self.is_target(kwargs):
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._as_fake, (args, kwargs))

        def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            self._inside = True  # what torch makes on the way is fake as well
            try:
                return self.dispatch(func, types, args, kwargs)
            finally:
                self._inside = False

        return self.run(func, args, kwargs, compute)

    def _as_fake(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
            return value
        fake: Any = self.from_tensor(value)
        if _is_kept(value):
            fake.known_values = value.detach()
        return fake


class _MetaDevice(DryDevice, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """torch's own device without values, several times as quick as fake tensors.

    Values are those of a storage on the CPU beside the one without, so views have them too.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._known: dict[int, tuple[Any, torch.UntypedStorage]] = {}

    def holds(self, value: Any) -> bool:
        """See `DryDevice.holds`."""
        return isinstance(value, Tensor) and value.is_meta

    def place(self, values: Tensor) -> Any:
        """See `DryDevice.place`."""
        placed = torch.empty_strided(
            values.shape, values.stride(), dtype=values.dtype, device="meta"
        )
        self._keep(placed, values)
        return placed

    def _values_of(self, tensor: Tensor) -> Tensor | None:
        kept = self._known.get(tensor.untyped_storage()._cdata)
        if kept is None:
            return None
        empty: Tensor = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(kept[1], tensor.storage_offset(), tensor.shape, tensor.stride())

    def _keep(self, tensor: Any, values: Tensor) -> None:
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._known or not storage.nbytes():  # a view, or written in place
            return
        beside = torch.UntypedStorage(storage.nbytes())  # type: ignore[no-untyped-call]
        whole = torch.empty(0, dtype=tensor.dtype)
        whole.set_(beside, tensor.storage_offset(), tensor.shape, tensor.stride())
        whole.copy_(values)
        gone = weakref.ref(storage, lambda _: self._known.pop(place, None))
        self._known[place] = (gone, beside)

    def _forget(self, tensor: Any) -> None:
        self._known.pop(tensor.untyped_storage()._cdata, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = tensors_in(args, kwargs)
        here = [t.is_meta for t in tensors]
        if not any(here) and not self.is_target(kwargs):
            return func(*args, **kwargs)
        if not all(here) and any(here) and func.overloadpacket not in _MIXED:
            for left in (t for t in tensors if not t.is_meta and t.ndim):
                raise RuntimeError(f"{func} takes a tensor {tuple(left.shape)} of another device")
        stays = kwargs.get("device") is None or self.is_target(kwargs)
        if func is torch.ops.aten._to_copy.default and not stays:
            values = self.known(args[0])
            if values is not None:
                return func(values, **kwargs)
        return self.run(func, args, kwargs, lambda func, args, kwargs: func(*args, **kwargs))


class _Calls(TorchFunctionMode):
    """Calls that do not reach the dispatcher, or that reach it in another way than on a GPU."""

    def __init__(self, mode: DryDevice) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.tolist and self.mode.holds(args[0]):
            values = self.mode.known(args[0])
            if values is not None:
                return values.tolist()
        if func in (torch.tensor, torch.as_tensor) and self.mode.is_target(kwargs):
            # torch would make an empty "meta" tensor without asking the mode
            plain = tree_map(self.mode.known_or_same, args)
            return func(*plain, **kwargs | {"device": "cpu"}).to(self.mode.device)
        if func is torch.Tensor.__getitem__ and self.mode.holds(args[0]):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(i, list) for i in index):  # these, too, would be made empty
                args = (args[0], tuple(map(self._placed, index)))
        if func is torch.Tensor.new_tensor and self.mode.holds(args[0]):
            dtype = kwargs.get("dtype") or args[0].dtype
            return torch.tensor(args[1], dtype=dtype).to(self.mode.device)
        if func is torch.Tensor.cpu and self.mode.holds(args[0]) and foreign_runs():
            # as a processor does that takes a size from an array of the pixels
            return torch.from_numpy(self.mode.read(args[0])).to(args[0].dtype)
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and self.mode.holds(args[0]):
            raise RuntimeError("a tensor without values was read; only `to_host` may")
        return func(*args, **kwargs)

    def _placed(self, index: Any) -> Any:
        return torch.tensor(index).to(self.mode.device) if isinstance(index, list) else index


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
        if query.device.type != "meta":
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


def tensors_in(*values: Any) -> list[Tensor]:
    """The tensors among arguments or results, those in lists and dicts too, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_in(*value)
        elif isinstance(value, dict):
            found += tensors_in(*value.values())
    return found


def _is_kept(tensor: Tensor, most: int = SMALL) -> bool:
    return not tensor.dtype.is_floating_point or tensor.numel() <= most
