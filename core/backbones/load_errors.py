"""What the libraries that read a model raise → errors with cause and remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import GatedRepoError
from safetensors import SafetensorError

from macd_studio.core.backbones.foreign import foreign_code
from macd_studio.core.backbones.packages import first_line, named_packages
from macd_studio.core.errors import BackboneCorrupt, BackboneNotFound, MacdError

_TOLD_HERE = (SafetensorError, OSError, ValueError)
COMPLETE = "Complete it: config.json, *.safetensors, tokenizer and processor files"


@contextmanager
def explained(name: str, local: bool, online: bool) -> Iterator[None]:
    """While inside, whatever is raised becomes a BackboneError, except a lack of memory.

    local: whether the model is a folder; online: whether the hub answers.
    """
    try:
        with foreign_code(name, "is loaded", _TOLD_HERE), named_packages(name):
            yield
    except MacdError:
        raise
    except SafetensorError as error:
        raise BackboneCorrupt(
            f"the weights of {name!r} are damaged or were not downloaded whole ({error})",
            "Delete them and download the model again",
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, GatedRepoError) or isinstance(error.__cause__, GatedRepoError):
            raise BackboneNotFound(
                f"{name!r} asks for its licence to be accepted first",
                "Accept it on the model's page, then log in with `hf auth login`",
            ) from error
        first = first_line(error)
        if local:
            raise BackboneCorrupt(
                f"the folder {name!r} holds no complete model ({first})", COMPLETE
            ) from error
        if not online:
            raise BackboneNotFound(
                f"{name!r} is not on this disk, and the hub cannot be reached",
                "Check the network, give the folder of a downloaded model, or use toyworld",
            ) from error
        raise BackboneNotFound(
            f"{name!r} is neither a folder nor a model that the hub gave ({first})",
            "Check the name, or use the embedded backbone: toyworld",
        ) from error
