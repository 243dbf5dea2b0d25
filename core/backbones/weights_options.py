"""How a backbone's weights are held: options of loading, which no trace's run depends on."""

# ruff: noqa: RUF009  (`choice` makes a field, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Checked, choice, flag

Weights = Literal["as-is", "int8", "nf4"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class WeightsOptions(Checked):
    """How a backbone's weights are held, chosen when it is loaded; no part of `RunOptions`.

    weights "nf4", "int8": bitsandbytes quantises them while they are read; "as-is": as the files
    have them. offload: what does not fit the device stays in the memory of the host or on disk.
    dtype "auto": bfloat16 on a GPU, float32 on a CPU.
    """

    weights: Weights = choice("as-is", Weights, "quantise the backbone with bitsandbytes at load")
    offload: bool = flag(
        False, "keep what does not fit the device in the host's memory or on disk, with accelerate"
    )
    hash_weights: bool = flag(False, "hash every byte of the backbone's weights, not a sample")
    dtype: Dtype = choice("auto", Dtype, "numbers that the backbone computes with")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.offload and self.weights != "as-is":
            raise OptionError(
                "bitsandbytes does not move what it quantised off the device",
                "Give packed weights or offloading, not both",
            )

    @property
    def needs_accelerate(self) -> bool:
        """Whether accelerate places the weights."""
        return self.offload or self.weights != "as-is"

    @property
    def words(self) -> tuple[str, ...]:
        """The flags that choose it; none where it is the default.

        >>> WeightsOptions("nf4").words
        ('--weights', 'nf4')
        >>> WeightsOptions("int8", dtype="float16").words
        ('--weights', 'int8', '--dtype', 'float16')
        """
        named = () if self.weights == "as-is" else ("--weights", self.weights)
        numbers = () if self.dtype == "auto" else ("--dtype", self.dtype)
        return (*named, *(("--offload",) if self.offload else ()), *numbers)
