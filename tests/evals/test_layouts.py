"""Each loader on its true layout, and on broken ones: one line that says what is wrong."""

import json
from itertools import product

import pytest
from PIL import Image

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.evals.benchmarks import FILES, SHIPPED, find_benchmark, open_files
from macd_studio.evals.benchmarks.video_pope import SPLITS, Content, absent_objects
from tests.evals.layouts import MAKERS, touch, write

LAID_OUT = [name for name in FILES if name not in SHIPPED]
"""Those that need a folder of data; of what ships see test_everyday_clips.py."""


@pytest.fixture
def folder(tmp_path):
    return lambda name: MAKERS[name](tmp_path)


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_true_layout_is_read(name, folder):
    benchmark = find_benchmark(name, folder(name))
    items = benchmark.items("all", 100)
    assert {i.id for i in items} == {i.id for i in benchmark.everything}
    assert {i.regime for i in items} == set(benchmark.regimes)
    for item in items:
        assert item.kind != "choice" or item.truth in "ABCD"[: len(item.options)]
        assert item.kind != "yes-no" or item.truth in ("yes", "no")


@pytest.mark.parametrize("name", LAID_OUT)
def test_choose_and_test_share_no_clip_and_are_everything(name, folder):
    benchmark = find_benchmark(name, folder(name))
    parts = [benchmark.items(split, 100) for split in ("choose", "test")]
    clusters = [{benchmark.cluster(i) for i in items} for items in parts]
    assert not clusters[0] & clusters[1]
    assert sorted(i.id for p in parts for i in p) == sorted(i.id for i in benchmark.everything)


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_folder_that_is_not_there_is_named(name, tmp_path):
    with pytest.raises(BenchmarkError, match="no f"):
        find_benchmark(name, tmp_path / "nowhere")
    with pytest.raises(BenchmarkError):
        find_benchmark(name, tmp_path)
    with pytest.raises(OptionError, match="--data"):
        find_benchmark(name)


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_missing_video_is_named_with_the_count(name, folder):
    root = folder(name)
    videos = sorted(root.rglob("*.mp4"))
    for video in videos[:1]:
        video.unlink()
    with pytest.raises(BenchmarkError) as caught:
        find_benchmark(name, root)
    assert f"1 of {len(videos)} video" in str(caught.value)
    assert videos[0].name in str(caught.value)
    assert "\n" not in str(caught.value)
    open_files(name, root, videos=False)


FILE = {
    "eventhallusion": "questions/entire_questions.json",
    "mvbench": "json/moving_direction.json",
    "perception-test": "mc_question_valid.json",
    "video-mme": "video_mme.json",
    "video-pope": "labels.jsonl",
    "questions": "questions.csv",
    "videohallucer": "object_relation/object_relation.json",
    "vidhalluc": "ach_binaryqa.json",
    "vidpair-halluc": "qa/hf/binary.jsonl",
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_a_file_that_breaks_off_is_named_with_its_line(name, folder):
    root = folder(name)
    path = root / FILE[name]
    text = path.read_text()
    path.write_text(text[: int(len(text) * 0.6)] + ('"' if name == "questions" else ""))
    with pytest.raises(BenchmarkError) as caught:
        find_benchmark(name, root)
    assert path.name in str(caught.value)
    assert "line" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("eventhallusion", "answer"), ("eventhallusion", "question"), ("eventhallusion", "id"),
        ("mvbench", "answer"), ("mvbench", "candidates"), ("mvbench", "video"),
        ("perception-test", "answer_id"), ("perception-test", "area"),
        ("perception-test", "mc_question"), ("video-mme", "answer"), ("video-mme", "options"),
        ("video-mme", "duration"), ("video-mme", "question_id"), ("video-pope", "objects"),
        ("video-pope", "video"), ("videohallucer", "basic"), ("videohallucer", "question"),
        ("vidhalluc", "q"), ("vidhalluc", "a"), ("vidpair-halluc", "question"),
        ("vidpair-halluc", "repo_video_path"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named(name, key, folder):
    root = folder(name)
    path = root / FILE[name]
    path.write_text(path.read_text().replace(f'"{key}":', f'"{key}z":'))
    with pytest.raises(BenchmarkError) as caught:
        find_benchmark(name, root)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def double(text, name):
    if name == "questions":
        return text.replace("q2", "q1")
    if name == "video-pope":
        return text + "\n" + text.splitlines()[0]
    if name == "video-mme":
        return text.replace("001-2", "001-1")
    if name == "perception-test":
        return text.replace('"id": 1', '"id": 0')
    if name == "vidpair-halluc":
        return text.replace("object_0000-b01", "object_0000-b00")
    return text.replace("entire_002", "entire_001")


BY_PLACE = ("mvbench", "videohallucer", "vidhalluc")
"""Their questions have no names of their own."""


@pytest.mark.parametrize("name", [n for n in LAID_OUT if n not in BY_PLACE])
def test_an_id_that_comes_twice_is_named(name, folder):
    root = folder(name)
    path = root / FILE[name]
    path.write_text(double(path.read_text(), name))
    with pytest.raises(BenchmarkError, match="twice"):
        find_benchmark(name, root)


def test_prompts_are_as_published(folder, tmp_path_factory):
    def first(name):
        item = find_benchmark(name, MAKERS[name](tmp_path_factory.mktemp(name))).everything[0]
        return item.before + item.question + item.after

    assert first("eventhallusion") == "Is it entire 1 0?\nPlease answer yes or no:"
    assert first("mvbench") == (
        "Question:What then?\nOption:\n(A) run\n(B) sit\n(C) eat\nOnly give the best option.\n"
    )
    assert first("perception-test") == (
        "What moves?\nA. a cup\nB. a ball\nC. a dog\n"
        "Answer with the option's letter from the given choices directly."
    )
    assert first("video-mme") == (
        "Select the best answer to the following multiple-choice question based on the video."
        " Respond with only the letter (A, B, C, or D) of the correct option.\n"
        "How many?\nA. One.\nB. Two.\nC. Three.\nD. Four.\nThe best answer is:"
    )
    bare = find_benchmark("mvbench", MAKERS["mvbench"](tmp_path_factory.mktemp("b")), None, False)
    assert (bare.everything[0].before, bare.everything[0].after) == ("", "")


def test_clips_of_mvbench_are_cut_once(folder):
    root = folder("mvbench")
    (asked,) = (a for a in find_benchmark("mvbench", root).asked if a.regime == "action_sequence")
    assert (asked.start, asked.end) == (1.5, 4.0)
    touch(root / "video/star/Charades_segment/v2.mp4")
    (root / "video/star/Charades_v1_480/v2.mp4").unlink()
    (asked,) = (a for a in find_benchmark("mvbench", root).asked if a.regime == "action_sequence")
    assert (asked.start, asked.end) == (0.0, None)  # the file holds nothing but that part


def test_videos_of_perception_test_are_cut_where_the_mapping_says(folder):
    ends = {
        a.video.stem: a.end
        for a in find_benchmark("perception-test", folder("perception-test")).asked
    }
    assert ends == {"video_1": None, "video_2": 2.0}


def test_perception_test_keeps_area_reasoning_and_every_tag(folder):
    item = find_benchmark("perception-test", folder("perception-test")).everything[0]
    assert item.regime == "physics"
    assert item.labels == (("reasoning", "descriptive"), ("tag", "motion"), ("tag", "collision"))


def test_the_former_third_split_of_eventhallusion_is_read(folder):
    root = folder("eventhallusion")
    entry = {"id": "mix_001", "questions": [{"question": "Was it calm?", "answer": "No."}]}
    write(root / "questions/mix_questions.json", [entry])
    asked = [a for a in find_benchmark("eventhallusion", root).asked if a.regime == "mix"]
    assert [a.video.name for a in asked] == ["interleave_001.mp4"]  # the same clip's present name


def test_missing_tasks_and_other_sizes_are_told(folder):
    (notes,) = (find_benchmark("mvbench", folder("mvbench")).check_sizes()[-1:],)
    assert "18 of 20 tasks are missing" in notes[0]
    assert "action_antonym" in notes[0]


def test_options_of_ones_own_questions_are_checked(folder):
    root = folder("questions")
    kinds = [(i.kind, i.truth) for i in find_benchmark("questions", root).everything]
    assert kinds == [("yes-no", "yes"), ("choice", "B"), ("word", "a ball")]
    path = root / "questions.csv"
    whole = path.read_text()
    for wrong, named in (
        ("Which way?,left,up|down", "not one of the options"),
        ("Which way?,up,up|up", "there twice"),
        (",down,up|down", "'question' is missing"),
    ):
        path.write_text(whole.replace("Which way?,down,up|down", wrong))
        with pytest.raises(BenchmarkError, match=named):
            find_benchmark("questions", root)
    path.write_text(whole.replace("type,", "typ,"))
    with pytest.raises(BenchmarkError, match="'typ' is not a column"):
        find_benchmark("questions", root)


def test_json_lines_of_ones_own_say_the_same(folder):
    root = folder("questions")
    of_csv = find_benchmark("questions", root / "questions.csv").everything
    lines = [
        {"id": "q1", "video": "a.mp4", "question": "Is there a dog?", "answer": "Yes",
         "type": "animals", "cluster": "home"},
        {"id": "q2", "video": "a.mp4", "question": "Which way?", "answer": "B", "type": "motion",
         "options": ["up", "down"], "cluster": "home"},
        {"id": "q3", "video": "b.mp4", "question": "What is it?", "answer": "a ball",
         "type": "objects"},
    ]  # fmt: skip
    (root / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert find_benchmark("questions", root / "own.jsonl").everything == of_csv


def test_a_text_of_json_lines_may_hold_another_end_of_line(folder):
    root = folder("questions")
    row = {"video": "a.mp4", "question": "Is there\u2028a dog?", "answer": "Yes"}
    (root / "own.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\r\n")
    (item,) = find_benchmark("questions", root / "own.jsonl").everything
    assert item.question == row["question"]


def test_pope_asks_as_many_yes_as_no_and_never_of_what_is_there(folder):
    root = folder("video-pope")
    benchmark = find_benchmark("video-pope", root)
    labels = {
        r["video"]: r["objects"]
        for r in map(json.loads, (root / "labels.jsonl").read_text().splitlines())
    }
    for split in SPLITS:
        mine = [a for a in benchmark.asked if a.regime == split]
        assert [a.truth for a in mine].count("yes") * 2 == len(mine) > 0
        for asked in mine:
            there = asked.labels[0][1] in labels[asked.video.name]
            assert there == (asked.truth == "yes")
    assert any("an apple" in a.question for a in benchmark.asked)


def test_pope_asks_no_more_of_what_is_there_than_of_what_is_not(tmp_path):
    """A clip that shows nearly everything has few absent objects."""
    shown = {"many.mp4": ["cup", "dog", "cat", "car", "hat"], "few.mp4": ["cup", "owl"]}
    (tmp_path / "clips").mkdir()
    for name in shown:
        (tmp_path / name).write_bytes(b"")
        (tmp_path / "clips" / name).write_bytes(b"")
    rows = [json.dumps({"video": name, "objects": there}) for name, there in shown.items()]
    (tmp_path / "labels.jsonl").write_text("\n".join(rows))
    asked = find_benchmark("video-pope", tmp_path).asked
    for split, name in product(SPLITS, shown):
        truths = [a.truth for a in asked if a.regime == split and a.video.name == name]
        assert truths.count("yes") == truths.count("no") == {"many.mp4": 1, "few.mp4": 2}[name]


def test_the_files_of_pope_itself_ask_of_its_pictures(tmp_path):
    rows = [
        {"question_id": 1, "image": "a.jpg", "text": "Is there a dining table in the image?",
         "label": "yes"},
        {"question_id": 2, "image": "a.jpg", "text": "Is there an apple in the imge?",
         "label": "no"},
    ]  # fmt: skip
    for split in SPLITS:
        lines = "\n".join(map(json.dumps, rows))
        (tmp_path / f"coco_pope_{split}.json").write_text(lines)
    with pytest.raises(
        BenchmarkError, match=r"1 of 1 picture missing in .*val2014/a\.jpg"
    ) as error:
        find_benchmark("video-pope", tmp_path)
    assert error.value.remedy.startswith("Unpack the pictures there")
    (tmp_path / "images").mkdir()
    with pytest.raises(BenchmarkError, match=r"images/a\.jpg"):
        find_benchmark("video-pope", tmp_path)
    (tmp_path / "val2014").mkdir()
    Image.new("RGB", (64, 48), "red").save(tmp_path / "val2014" / "a.jpg")
    benchmark = find_benchmark("video-pope", tmp_path)
    assert set(benchmark.regimes) == set(SPLITS)
    assert len(benchmark.everything) == 6
    assert [dict(a.labels)["object"] for a in benchmark.asked[:2]] == ["dining table", "apple"]
    clip = benchmark.clip(benchmark.everything[0].clip)
    assert clip.is_picture
    for wrong in ({"label": "maybe"}, {"image": "../a.jpg"}):
        (tmp_path / "coco_pope_random.json").write_text(json.dumps(rows[0] | wrong))
        with pytest.raises(BenchmarkError, match=r"coco_pope_random"):
            find_benchmark("video-pope", tmp_path)


def test_pope_draws_what_is_frequent_and_what_comes_together():
    labels = {
        "1": ("dog", "leash"), "2": ("dog", "leash"), "3": ("car",), "4": ("car",), "5": ("car",),
        "6": ("dog",),
    }  # fmt: skip
    labels = {video: Content(objects) for video, objects in labels.items()}
    assert absent_objects("popular", "6", labels) == ["car", "leash"]
    assert absent_objects("adversarial", "6", labels) == ["leash", "car"]
    assert sorted(absent_objects("random", "6", labels)) == ["car", "leash"]
