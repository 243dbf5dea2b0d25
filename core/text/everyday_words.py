"""What people call the 80 classes of COCO, which detectors of everyday things have."""

from __future__ import annotations

from functools import cache

_PLURALS = {
    "person": "people", "bus": "buses", "sheep": "sheep", "skis": "skis", "knife": "knives",
    "sandwich": "sandwiches", "couch": "couches", "bench": "benches", "mouse": "mice",
    "toothbrush": "toothbrushes", "scissors": "scissors", "wine glass": "wine glasses",
    "baseball glove": "baseball gloves", "broccoli": "broccoli",
}  # fmt: skip
_SYNONYMS: dict[str, tuple[tuple[str, str], ...]] = {
    "person": (("man", "men"), ("woman", "women"), ("human", "humans"), ("pedestrian",
               "pedestrians"), ("someone", "persons"), ("guy", "guys")),
    "bicycle": (("bike", "bikes"), ("cycle", "cycles")),
    "car": (("automobile", "automobiles"),),
    "motorcycle": (("motorbike", "motorbikes"), ("scooter", "scooters")),
    "airplane": (("plane", "planes"), ("aeroplane", "aeroplanes"), ("aircraft", "aircraft")),
    "bus": (("coach", "coaches"),),
    "truck": (("lorry", "lorries"), ("pickup", "pickups")),
    "boat": (("ship", "ships"), ("sailboat", "sailboats")),
    "traffic light": (("traffic signal", "traffic signals"),),
    "fire hydrant": (("hydrant", "hydrants"),),
    "cat": (("kitten", "kittens"),), "dog": (("puppy", "puppies"),),
    "horse": (("pony", "ponies"),), "sheep": (("lamb", "lambs"),),
    "cow": (("bull", "bulls"), ("cattle", "cattle")),
    "backpack": (("rucksack", "rucksacks"),), "handbag": (("purse", "purses"),),
    "tie": (("necktie", "neckties"),), "suitcase": (("luggage", "suitcases"),),
    "frisbee": (("disc", "discs"),),
    "skis": (("ski", "skis"),),
    "sports ball": (("ball", "balls"), ("football", "footballs"), ("soccer ball", "soccer balls"),
                    ("basketball", "basketballs"), ("tennis ball", "tennis balls")),
    "baseball bat": (("bat", "bats"),), "baseball glove": (("glove", "gloves"),),
    "skateboard": (("longboard", "longboards"),),
    "tennis racket": (("racket", "rackets"), ("racquet", "racquets")),
    "wine glass": (("glass", "glasses"), ("wineglass", "wineglasses")),
    "cup": (("mug", "mugs"), ("coffee cup", "coffee cups")),
    "hot dog": (("hotdog", "hotdogs"),), "donut": (("doughnut", "doughnuts"),),
    "chair": (("seat", "seats"), ("armchair", "armchairs")),
    "couch": (("sofa", "sofas"),),
    "potted plant": (("plant", "plants"), ("houseplant", "houseplants"),
                     ("flowerpot", "flowerpots")),
    "dining table": (("table", "tables"), ("desk", "desks")),
    "tv": (("television", "televisions"), ("screen", "screens"), ("monitor", "monitors")),
    "laptop": (("notebook computer", "notebook computers"), ("computer", "computers")),
    "mouse": (("computer mouse", "computer mice"),),
    "remote": (("remote control", "remote controls"),),
    "cell phone": (("phone", "phones"), ("mobile phone", "mobile phones"),
                   ("smartphone", "smartphones"), ("cellphone", "cellphones")),
    "refrigerator": (("fridge", "fridges"),), "oven": (("stove", "stoves"),),
    "clock": (("watch", "watches"),), "vase": (("flower vase", "flower vases"),),
    "teddy bear": (("teddy", "teddies"), ("stuffed animal", "stuffed animals")),
    "hair drier": (("hair dryer", "hair dryers"), ("hairdryer", "hairdryers")),
}  # fmt: skip


def words_for(label: str) -> list[tuple[str, str]]:
    """(singular, plural) of every way to call a class, its own name first.

    >>> words_for("bus"), words_for("kite")
    ([('bus', 'buses'), ('coach', 'coaches')], [('kite', 'kites')])
    """
    return [(label, _PLURALS.get(label, f"{label}s")), *_SYNONYMS.get(label, ())]


@cache
def classes_called(word: str) -> frozenset[str]:
    """The classes that a word may mean, in small letters; none for a word that is not here.

    >>> sorted(classes_called("people")), sorted(classes_called("phones")), classes_called("elk")
    (['person'], ['cell phone'], frozenset())
    """
    known = {*_PLURALS, *_SYNONYMS}
    return frozenset(label for label in known if any(word in pair for pair in words_for(label)))
