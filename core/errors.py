"""Everything that can go wrong, in one tree. Each error names its cause and the remedy."""

from __future__ import annotations

from typing import Any

from macd_studio.commands import here


class MacdError(Exception):
    """Base of all errors of this project.

    Args:
        cause: what is wrong, one sentence without a final full stop.
        remedy: what the user can do about it, likewise. A command in it is told as it is called
            from where this process runs.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        self.cause, self.remedy = cause, here(remedy)
        super().__init__(f"{cause}. {self.remedy}.")

    def __reduce__(self) -> tuple[type[MacdError], Any]:
        return type(self), (self.cause, self.remedy)


class VideoError(MacdError):
    """The file cannot be analysed."""


class VideoNotFound(VideoError):
    """No such file, a folder, or an address instead of a file."""


class NotAVideo(VideoError):
    """Empty, another kind of file, a playlist, or a broken header."""


class NoVideoStream(VideoError):
    """The file holds sound only."""


class CorruptVideo(VideoError):
    """The file opens, but not one picture can be decoded."""


class VideoTooLarge(VideoError):
    """Too many bytes or pixels."""


class VideoTooSmall(VideoError):
    """Frames too small to hold an object."""


class VideoTooLong(VideoError):
    """Longer than can be analysed in one piece."""


class DecodeLimit(VideoError):
    """Decoding ran past its time or memory limit."""


class QuestionError(MacdError):
    """Blank, too long, control characters, or a model's special token."""


class OptionError(MacdError, ValueError):
    """An option out of its range."""


class NotApplicable(MacdError):
    """A method that cannot answer a question of this kind; others can."""


class DetectorError(MacdError):
    """Weights not found, not loadable, or failing on a frame."""


class TracksError(MacdError):
    """A file of tracks or masks cannot be read, or does not fit the clip."""


class SeveralVideos(TracksError):
    """It holds several videos, and which is the clip's is not clear. names: by which to choose."""

    def __init__(self, cause: str, remedy: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(cause, remedy)
        self.names = names

    def __reduce__(self) -> tuple[type[MacdError], Any]:
        return type(self), (self.cause, self.remedy, self.names)


class BackboneError(MacdError):
    """The video language model cannot be used."""


class BackboneNotFound(BackboneError):
    """No such folder, or the hub cannot be reached."""


class UnsupportedBackbone(BackboneError):
    """Not one of the supported families, or unsafe weights."""


class BackboneCorrupt(BackboneError):
    """Weights incomplete, or not those that were shipped."""


class RemoteError(BackboneError):
    """The server that holds it fails, or cannot be believed.

    status: of its answer in HTTP, 0 where it gave none.
    """

    def __init__(self, cause: str, remedy: str, status: int = 0) -> None:
        super().__init__(cause, remedy)
        self.status = status

    def __reduce__(self) -> tuple[type[MacdError], Any]:
        return type(self), (self.cause, self.remedy, self.status)


class OutOfMemory(BackboneError):
    """The device cannot hold model and clip."""


class PlatformError(MacdError):
    """Neither Linux nor macOS."""


HALF_OR_DAMAGED = (
    "Load a model of half precision in float32; look for NaN in the weights of one that is in it"
)
"""What may help where a model gives NaN or infinity."""


class NumericalError(MacdError):
    """NaN or infinity in a loss, a gradient or logits."""


class BlindGradient(MacdError):
    """The loss does not depend on the video at all."""


class BenchmarkError(MacdError):
    """Questions, videos or predictions of a benchmark cannot be read."""


class TraceError(MacdError):
    """Not a trace, damaged, tampered with, or of another version."""


class Cancelled(MacdError):
    """Stopped by the user; what was computed is kept."""
