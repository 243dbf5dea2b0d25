"""Every structure with random weights; docs/detectors.md is written from what they do.

`python -m tests.detectors` runs each through a whole run and writes the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from macd_studio.core.objects.detect import Yolo, load_detector
from macd_studio.core.objects.registry import DETECTORS
from macd_studio.core.objects.segment import load_segmenter
from macd_studio.core.options import DetectOptions, RunOptions, TrackOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.types import Trace
from macd_studio.core.whatif.workbench import Workbench, read_edit
from tests.fakes import ByteLM
from tests.fakes import clip as random_clip

PAGE = Path(__file__).parents[1] / "docs" / "detectors.md"
START, END = "<!-- table -->\n", "<!-- end of the table -->\n"
CLASSES = {0: "dog", 1: "cat", 2: "bus"}
WORDS = ("dog", "red jacket")
KEPT = TemporaryDirectory()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "dog", "cat", "red", "jacket"]


def _swin() -> Any:
    import transformers as tf

    return tf.SwinConfig(
        image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1], window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


def _bert_words(**how: Any) -> Any:
    import transformers as tf

    return tf.BertTokenizerFast(vocab={w: i for i, w in enumerate(VOCABULARY)}, **how)


_DETR: dict[str, Any] = dict(
    encoder_hidden_dim=16, encoder_in_channels=[16, 16, 16], d_model=16, encoder_ffn_dim=16,
    decoder_ffn_dim=16, num_queries=20, decoder_in_channels=[16, 16, 16], decoder_layers=2,
    decoder_attention_heads=2, encoder_attention_heads=2, num_denoising=0, id2label=CLASSES,
)  # fmt: skip


def _hgnet() -> Any:
    import transformers as tf

    return tf.HGNetV2Config(
        stem_channels=[3, 8, 8], stage_in_channels=[8, 8, 16, 16], stage_mid_channels=[8] * 4,
        stage_out_channels=[8, 16, 16, 16], stage_num_blocks=[1] * 4, embedding_size=8,
        stage_numb_of_layers=[1] * 4, hidden_sizes=[8, 16, 16, 16], depths=[1] * 4,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


def rt_detr() -> tuple[Any, Any]:
    import transformers as tf

    backbone = tf.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = tf.RTDetrConfig(backbone_config=backbone, **_DETR)
    images = tf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    return tf.RTDetrForObjectDetection(config), images


def d_fine() -> tuple[Any, Any]:
    import transformers as tf

    config = tf.DFineConfig(backbone_config=_hgnet(), **_DETR)
    images = tf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    return tf.DFineForObjectDetection(config), images


def deimv2() -> tuple[Any, Any]:
    import transformers as tf

    config = tf.Deimv2Config(backbone_config=_hgnet(), **_DETR)
    images = tf.RTDetrImageProcessor(size={"height": 64, "width": 64})
    return tf.Deimv2ForObjectDetection(config), images


def rf_detr() -> tuple[Any, Any]:
    import transformers as tf

    backbone = tf.RfDetrDinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=112, patch_size=14,
        num_windows=2, out_features=["stage1", "stage2"], window_block_indexes=[0],
    )  # fmt: skip
    config = tf.RfDetrConfig(
        backbone_config=backbone, d_model=16, num_queries=60, group_detr=1, decoder_layers=2,
        decoder_ffn_dim=16, decoder_self_attention_heads=2, decoder_cross_attention_heads=2,
        id2label=CLASSES,
    )  # fmt: skip
    images = tf.RfDetrImageProcessor(size={"height": 112, "width": 112})
    return tf.RfDetrForObjectDetection(config), images


def _grounded(config: Any, model: Any) -> tuple[Any, Any]:
    import transformers as tf

    made = config(
        backbone_config=_swin(),
        text_config=tf.BertConfig(
            vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=1,
            num_attention_heads=2, intermediate_size=16,
        ),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        encoder_attention_heads=2, decoder_attention_heads=2, num_queries=10,
    )  # fmt: skip
    images = tf.GroundingDinoImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    return model(made), tf.GroundingDinoProcessor(image_processor=images, tokenizer=_bert_words())


def grounding_dino() -> tuple[Any, Any]:
    import transformers as tf

    return _grounded(tf.GroundingDinoConfig, tf.GroundingDinoForObjectDetection)


def mm_grounding_dino() -> tuple[Any, Any]:
    import transformers as tf

    return _grounded(tf.MMGroundingDinoConfig, tf.MMGroundingDinoForObjectDetection)


def owlv2() -> tuple[Any, Any]:
    import transformers as tf

    small = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    text = dict(vocab_size=len(VOCABULARY), max_position_embeddings=16, bos_token_id=2,
                eos_token_id=3)  # fmt: skip
    config = tf.Owlv2Config(
        text_config=small | text, vision_config=small | dict(image_size=64, patch_size=16),
        projection_dim=16,
    )  # fmt: skip
    images = tf.Owlv2ImageProcessor(size={"height": 64, "width": 64})
    words = _bert_words(model_max_length=16)
    processor = tf.Owlv2Processor(image_processor=images, tokenizer=words)
    return tf.Owlv2ForObjectDetection(config), processor


def omdet_turbo() -> tuple[Any, Any]:
    import transformers as tf

    text = tf.CLIPTextConfig(
        vocab_size=len(VOCABULARY), hidden_size=24, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=77, projection_dim=16, bos_token_id=2,
        eos_token_id=3,
    )  # fmt: skip
    config = tf.OmDetTurboConfig(
        backbone_config=_swin(), text_config=text, use_timm_backbone=False, image_size=64,
        apply_layernorm_after_vision_backbone=False, encoder_hidden_dim=16, num_queries=10,
        decoder_hidden_dim=16, vision_features_channels=[16, 16, 16], decoder_num_layers=1,
        encoder_in_channels=[16, 32, 64], text_projection_in_dim=24, text_projection_out_dim=24,
        task_encoder_hidden_dim=16, class_embed_dim=24, encoder_dim_feedforward=16,
        decoder_dim_feedforward=16, decoder_num_heads=2, encoder_attention_heads=2,
    )  # fmt: skip
    images = tf.DetrImageProcessor(size={"height": 64, "width": 64})
    processor = tf.OmDetTurboProcessor(image_processor=images, tokenizer=_bert_words())
    return tf.OmDetTurboForObjectDetection(config), processor


_SAM: dict[str, Any] = dict(
    prompt_encoder_config=dict(hidden_size=128, image_size=64),
    mask_decoder_config=dict(
        hidden_size=128, mlp_dim=32, num_attention_heads=2, iou_head_hidden_dim=32
    ),
    image_size=64, memory_attention_hidden_size=128, memory_attention_num_layers=1,
    memory_attention_rope_feat_sizes=[4, 4], memory_encoder_hidden_size=128,
    mask_downsampler_embed_dim=128, memory_fuser_embed_dim=128, memory_fuser_intermediate_dim=32,
    memory_fuser_num_layers=1,
)  # fmt: skip


def _tracker(model: Any) -> tuple[Any, Any]:
    """With a processor; the model always sees an object, whose mask is neither all nor nothing."""
    import transformers as tf

    decoder, size = model.mask_decoder, {"height": 64, "width": 64}
    with torch.no_grad():
        decoder.pred_obj_score_head.proj_out.bias.fill_(5)
        for network in decoder.output_hypernetworks_mlps:
            network.proj_out.weight.mul_(50)
    images = tf.Sam2ImageProcessor(size=size, mask_size={"height": 16, "width": 16})
    return model, tf.Sam2VideoProcessor(images, tf.Sam2VideoVideoProcessor(size=size))


def _hiera() -> Any:
    import transformers as tf

    return tf.Sam2VisionConfig(
        backbone_config=tf.Sam2HieraDetConfig(
            hidden_size=8, image_size=[64, 64], embed_dim_per_stage=[8, 16, 32, 64],
            num_attention_heads_per_stage=[1, 1, 2, 2], blocks_per_stage=[1, 1, 2, 1],
            global_attention_blocks=[3], window_size_per_stage=[8, 4, 8, 4],
            window_positional_embedding_background_size=[4, 4],
        ),
        backbone_channel_list=[64, 32, 16, 8], fpn_hidden_size=128,
        backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
    )  # fmt: skip


def sam2() -> tuple[Any, Any]:
    import transformers as tf

    config = tf.Sam2VideoConfig(
        vision_config=_hiera(), memory_attention_feed_forward_hidden_size=32, **_SAM
    )
    return _tracker(tf.Sam2VideoModel(config))


def edgetam() -> tuple[Any, Any]:
    import transformers as tf

    config = tf.EdgeTamVideoConfig(
        vision_config=_hiera(), memory_attention_mlp_hidden_size=32,
        memory_attention_rope_k_sizes=[4, 4], perceiver_resampler_num_latents=16,
        perceiver_resampler_num_latents_2d=16, perceiver_resampler_mlp_intermediate_size=16,
        perceiver_resampler_num_layers=1, **_SAM,
    )  # fmt: skip
    return _tracker(tf.EdgeTamVideoModel(config))


@dataclass(frozen=True)
class Structure:
    """A structure of the table. entry: of the registry that stands for it; make: with random
    weights, of transformers; yolo: its configuration, of ultralytics.
    """

    title: str
    entry: str
    make: Callable[[], tuple[Any, Any]] | None = None
    yolo: str = ""
    quick: bool = True


STRUCTURES = {
    one.title: one
    for one in (
        Structure("embedded", "toyworld"),
        Structure("grid", "grid"),
        Structure("motion", "motion"),
        Structure("RT-DETR", "rt-detr", rt_detr),
        Structure("D-FINE", "d-fine", d_fine, quick=False),
        Structure("RF-DETR", "rf-detr", rf_detr),
        Structure("DEIMv2", "", deimv2, quick=False),
        Structure("YOLO11", "yolo11n", yolo="yolo11n.yaml", quick=False),
        Structure("YOLO26", "yolo26n", yolo="yolo26n.yaml", quick=False),
        Structure("YOLO26-seg", "yolo26n-seg", yolo="yolo26n-seg.yaml"),
        Structure("Grounding DINO", "grounding-dino", grounding_dino, quick=False),
        Structure("MM Grounding DINO", "mm-grounding-dino", mm_grounding_dino),
        Structure("OWLv2", "owlv2", owlv2),
        Structure("OmDet-Turbo", "omdet-turbo", omdet_turbo),
        Structure("YOLOE-11-seg", "yoloe-11s-seg", yolo="yoloe-11s-seg.yaml", quick=False),
        Structure("YOLOE-26-seg", "yoloe-26n-seg", yolo="yoloe-26n-seg.yaml"),
        Structure("GrabCut", "grabcut"),
        Structure("SAM 2", "sam2-tiny", sam2),
        Structure("EdgeTAM", "edgetam", edgetam),
    )
}


def embeddings(model: Any, words: list[str]) -> Any:
    """What a text encoder would give for words: a vector a word, the same every time."""
    rows = [
        torch.randn(512, generator=torch.Generator().manual_seed(sum(map(ord, word))))
        for word in words
    ]
    return torch.nn.functional.normalize(torch.stack(rows), dim=-1)[None]


def _yolo_file(config: str, folder: Path) -> Path:
    """Weights of random numbers whose head sees something about everywhere."""
    from ultralytics import YOLO

    torch.manual_seed(0)
    model = YOLO(config)
    head = model.model.model[-1]
    with torch.no_grad():
        for name in ("cv3", "one2one_cv3", "cv4", "one2one_cv4"):
            for branch in getattr(head, name, None) or ():
                last = branch[-1] if isinstance(branch, torch.nn.Sequential) else branch
                if type(last).__name__ == "BNContrastiveHead":
                    last.bias.zero_()
                elif name.endswith("cv3") and last.bias is not None and "yoloe" not in config:
                    last.bias[:] = -20
                    last.bias[3] = 0
        for name in ("cv5", "one2one_cv5"):  # of YOLOE: masks that are not empty
            for branch in getattr(head, name, None) or ():
                branch[-1].bias[:] = 1
        for part in head.proto.modules() if "yoloe" in config else ():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.bias[:] = 2
    path = folder / config.replace(".yaml", ".pt")
    model.save(path)
    return path


@cache
def built(title: str) -> Any:
    """The detector or segmenter of a structure, loaded as a user's own is."""
    one = STRUCTURES[title]
    load = load_segmenter if follows(title) else load_detector
    if one.yolo:  # its file is read again for other words
        return Yolo(one.entry, _yolo_file(one.yolo, Path(KEPT.name)), embed=embeddings)
    with TemporaryDirectory() as folder:
        if one.make is None:
            return load(one.entry)
        torch.manual_seed(0)
        model, processor = one.make()
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return load(folder)


def follows(title: str) -> bool:
    """Whether it follows points instead of finding objects."""
    entry = DETECTORS.get(STRUCTURES[title].entry)
    return entry is not None and entry.reads == "points"


def traced(title: str) -> Trace:
    """A whole run with it, about a small random clip in which a part moves."""
    clip = random_clip(frames=4, size=64)
    clip.dense_frames[:] = clip.dense_frames[0] // 4
    for i, frame in enumerate(clip.dense_frames):
        frame[8:24, 4 * i : 4 * i + 16] = (255, 0, 0)
    clip.frames[:] = clip.dense_frames[: len(clip.frames)]
    detector, lm = built("grid" if follows(title) else title), ByteLM()
    options = RunOptions(
        video=VideoOptions(frames=4),
        detect=DetectOptions(confidence=0.01, low=0.01, image_size=64, max_per_frame=20),
        track=TrackOptions(min_seen=1),
    )
    question = "Is the dog near the red jacket?"
    *_, last = run(lambda: clip, question, lambda: lm, lambda: detector, options)
    if not follows(title):
        return last.trace
    bench = Workbench(last.trace, lm, lambda name, frames: built(title))
    click = {"kind": "point", "frame": 1, "points": [[0.2, 0.25]], "label": "kite"}
    *_, last = bench.change(read_edit(click, bench.trace))
    return replace(last.trace, tracks=last.trace.tracks[-1:])


def row(title: str) -> list[str]:
    """A structure's line of the table, from its run and its entry."""
    trace, detector = traced(title), built(title)
    entry = DETECTORS.get(STRUCTURES[title].entry)
    whole = trace.status == "complete" and bool(trace.tracks) and "macd" in trace.answers
    outlined = any(t.outlines for t in trace.tracks)
    size = None if entry is None or entry.parameters is None else 4 * entry.parameters
    return [
        title,
        "a folder or hub id" if entry is None else f"`{STRUCTURES[title].entry}`",
        "yes" if whole else "no",
        "points"
        if follows(title)
        else "words"
        if detector.open_vocabulary
        else "nothing"
        if entry is not None and entry.reads == "nothing"
        else "classes",
        "yes" if outlined else "no",
        "–" if entry is None else entry.licence or "–",
        "–" if size is None else f"{size:.0f} MB",
    ]


HEADER = ["structure", "for example", "whole run", "reads", "outlines", "licence",
          "weights in memory"]  # fmt: skip


def table() -> str:
    """The table as the page holds it."""
    lines = [HEADER, ["---"] * len(HEADER), *map(row, STRUCTURES)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written() -> list[list[str]]:
    """The rows that the page holds."""
    text = PAGE.read_text().partition(START)[2].partition(END)[0]
    return [[c.strip() for c in line.strip("|\n").split("|")] for line in text.splitlines()][2:]


if __name__ == "__main__":
    before, _, after = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + after.partition(END)[2])
    sys.exit(0)
