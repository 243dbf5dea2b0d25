"""What `generate(..., custom_generate=FOLDER, trust_remote_code=True)` of transformers runs.

Everything is computed by the installed package macd-studio; the card beside this folder says how
to call it.
"""

from __future__ import annotations

from typing import Any

try:  # inside try: transformers would name the module, under which no package can be installed
    from macd_studio.core.errors import OptionError
    from macd_studio.core.generate import decoder
    from macd_studio.core.options import RunOptions, options_from
except ImportError as error:
    raise ImportError(
        f"custom_generate needs MACD Studio: {error}. Run `pip install .` in its checkout"
    ) from error


def generate(
    model: Any,
    *,
    processor: Any = None,
    video: Any = None,
    question: str | None = None,
    method: str = "macd",
    lazy: bool = True,
    detector: Any = "auto",
    options: Any = None,
    on_trace: Any = None,
    **call: Any,
) -> Any:
    """The prompt with the answer's tokens, (1, L), or what return_dict_in_generate=True asks for.

    processor: the model's own, or macd_studio.wrap(model, processor), which is then not made anew
    at every call. options: RunOptions, or a mapping of its parts such as {"ascent": {"steps": 3}}.
    call: the other arguments of `generate`. The rest, and what is raised: see macd_studio.decoder.
    """
    import torch

    given = {"processor": processor, "video": video, "question": question}
    if missing := [name for name, value in given.items() if value is None]:
        raise OptionError(
            f"generate was not given {', '.join(missing)}",
            "Pass processor=, video= (a file or a Clip) and question= beside custom_generate=",
        )
    chosen = options if isinstance(options, RunOptions) else options_from(options or {})
    with torch.enable_grad():  # `generate` has switched gradients off; an unknown family is checked
        answer = decoder(
            model, processor, video, str(question), method=method, lazy=lazy,
            detector=detector, options=chosen, on_trace=on_trace,
        )  # fmt: skip
    # not model.generate: where a repository holds this folder, that is this function
    return type(model).generate(model, **call, custom_generate=answer)
