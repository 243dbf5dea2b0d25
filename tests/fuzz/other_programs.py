"""Drawn objects as other annotation programs write them; shares nothing with what reads them."""

from __future__ import annotations

import io

import numpy as np

from tests.fuzz import drawn_tracks as drawn


def boxes_of(truth, n):
    """(number of the object, label, x, y, w, h) of a frame."""
    for k, label in enumerate(truth.labels):
        x0, y0, x1, y1 = truth.boxes[k, n].tolist()
        yield k + 1, label, x0, y0, x1 - x0, y1 - y0


def labelme(truth, rng, folder):
    first, digits = rng.choice([0, 1]), rng.choice([4, 6])
    files = {}
    for n in range(truth.count):
        shapes = []
        for key, label, x, y, w, h in boxes_of(truth, n):
            ends = [[x, y], [x + w, y + h]]
            ring = [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]
            kind = rng.choice(["rectangle", "polygon"])
            shapes.append({
                "label": label, "group_id": key, "shape_type": kind, "flags": {},
                "points": rng.sample(ends, 2) if kind == "rectangle" else ring,
            })  # fmt: skip
        name = f"clip_{n + first:0{digits}d}"
        files[f"{name}.json"] = drawn.as_json({
            "version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": f"{name}.jpg",
            "imageData": None, "imageHeight": truth.size[1], "imageWidth": truth.size[0],
        })  # fmt: skip
    return drawn.zipped(folder, files), {"file_first": str(first)}


def via(truth, rng, folder):
    rows = {}
    for n in range(truth.count):
        regions = []
        for key, label, x, y, w, h in boxes_of(truth, n):
            shape = {"name": "rect", "x": x, "y": y, "width": w, "height": h}
            if rng.random() < 0.5:
                shape = {"name": "polygon", "all_points_x": [x, x + w, x + w, x],
                         "all_points_y": [y, y, y + h, y + h]}  # fmt: skip
            said = {"label": label, "track_id": str(key)}
            regions.append({"shape_attributes": shape, "region_attributes": said})
        name = f"frame{n:05d}.jpg"
        row = {"filename": name, "size": 1234, "regions": regions, "file_attributes": {}}
        rows[f"{name}1234"] = row
    data = {"_via_settings": {}, "_via_img_metadata": rows} if rng.random() < 0.5 else rows
    return drawn.write(folder, "via.json", drawn.as_json(data)), {}


def bdd(truth, rng, folder):
    rows = []
    for n in range(truth.count):
        labels = [
            {"id": f"{key:08d}", "category": label, "attributes": {"occluded": False},
             "box2d": {"x1": x, "y1": y, "x2": x + w, "y2": y + h}}
            for key, label, x, y, w, h in boxes_of(truth, n)
        ]  # fmt: skip
        name = f"b1c66a42-{n + 1:07d}.jpg"
        rows.append({"name": name, "videoName": "b1c66a42", "frameIndex": n, "labels": labels})
    rng.shuffle(rows)
    return drawn.write(folder, "b1c66a42.json", drawn.as_json(rows)), {}


def datumaro(truth, rng, folder):
    items = []
    for n in range(truth.count):
        notes = []
        for key, label, x, y, w, h in boxes_of(truth, n):
            note = {"id": key, "attributes": {"track_id": key}, "group": 0, "z_order": 0,
                    "label_id": drawn.LABELS.index(label)}  # fmt: skip
            if rng.random() < 0.5:
                note |= {"type": "bbox", "bbox": [x, y, w, h]}
            else:
                note |= {"type": "polygon", "points": [x, y, x + w, y, x + w, y + h, x, y + h]}
            notes.append(note)
        items.append({
            "id": f"frame_{n:06d}", "annotations": notes, "attr": {"frame": n},
            "image": {"path": f"frame_{n:06d}.png", "size": [truth.size[1], truth.size[0]]},
        })  # fmt: skip
    labels = [{"name": z, "parent": "", "attributes": []} for z in drawn.LABELS]
    data = {"info": {}, "categories": {"label": {"labels": labels}}, "items": items}
    return drawn.write(folder, "default.json", drawn.as_json(data)), {}


def supervisely(truth, rng, folder):
    objects = [{"key": f"k{k}", "classTitle": label, "tags": []}
               for k, label in enumerate(truth.labels, 1)]  # fmt: skip
    frames = []
    for n in range(truth.count):
        figures = [
            {"key": "f", "objectKey": f"k{key}", "geometryType": "rectangle",
             "geometry": {"points": {"exterior": [[x, y], [x + w, y + h]], "interior": []}}}
            for key, _, x, y, w, h in boxes_of(truth, n)
        ]  # fmt: skip
        frames.append({"index": n, "figures": figures, "tags": []})
    rng.shuffle(frames)
    data = {
        "size": {"width": truth.size[0], "height": truth.size[1]}, "description": "", "tags": [],
        "objects": objects, "frames": frames, "framesCount": truth.count,
    }  # fmt: skip
    return drawn.write(folder, "clip.mp4.json", drawn.as_json(data)), {}


def openlabel(truth, rng, folder):
    about = {str(k): {"name": f"o{k}", "type": z} for k, z in enumerate(truth.labels, 1)}
    frames = {}
    for n in range(truth.count):
        frames[str(n)] = {"objects": {
            str(key): {"object_data": {"bbox": [
                {"name": "shape", "val": [x + w / 2, y + h / 2, w, h]}]}}
            for key, _, x, y, w, h in boxes_of(truth, n)
        }}  # fmt: skip
    data = {"metadata": {"schema_version": "1.0.0"}, "objects": about, "frames": frames}
    return drawn.write(folder, "a.json", drawn.as_json({"openlabel": data})), {}


def voc(truth, rng, folder):
    files = {}
    for n in range(truth.count):
        objects = "".join(
            f"<object><name>{label}</name><pose>Unspecified</pose><truncated>0</truncated><bndbox>"
            f"<xmin>{x + 1:g}</xmin><ymin>{y + 1:g}</ymin><xmax>{x + w + 1:g}</xmax>"
            f"<ymax>{y + h + 1:g}</ymax></bndbox></object>"
            for _, label, x, y, w, h in boxes_of(truth, n)
        )
        files[f"Annotations/clip_{n:05d}.xml"] = (
            f"<annotation><folder>a</folder><filename>clip_{n:05d}.jpg</filename><size><width>"
            f"{truth.size[0]}</width><height>{truth.size[1]}</height><depth>3</depth></size>"
            f"<segmented>0</segmented>{objects}</annotation>"
        )
    return drawn.zipped(folder, files), {}


def labelme_xml(truth, rng, folder):
    """LabelMe's own, of MIT: polygons."""
    files = {}
    for n in range(truth.count):
        objects = "".join(
            f"<object><name>{label}</name><deleted>0</deleted><id>{key}</id><polygon>"
            + "".join(f"<pt><x>{a:.2f}</x><y>{b:.2f}</y></pt>"
                      for a, b in ((x, y), (x + w, y), (x + w, y + h), (x, y + h)))
            + "</polygon></object>"
            for key, label, x, y, w, h in boxes_of(truth, n)
        )  # fmt: skip
        files[f"default/clip_{n:05d}.xml"] = (
            f"<annotation><filename>clip_{n:05d}.jpg</filename><folder>default</folder><imagesize>"
            f"<nrows>{truth.size[1]}</nrows><ncols>{truth.size[0]}</ncols></imagesize>{objects}"
            "</annotation>"
        )
    return drawn.zipped(folder, files), {}


def table(truth, rng, folder):
    """A table with two corners a box, its columns in any order, one of them text with blanks."""
    columns = [
        "frame_id",
        "track_id",
        "xmin",
        "ymin",
        "xmax",
        "ymax",
        "score",
        "note",
        "class_name",
    ]
    rng.shuffle(columns)
    rows = [",".join(columns)]
    for n in range(truth.count):
        for key, label, x, y, w, h in boxes_of(truth, n):
            cells = {"frame_id": n, "track_id": key, "xmin": x, "ymin": y, "xmax": x + w,
                     "ymax": y + h, "score": 0.5, "note": "a b", "class_name": label}  # fmt: skip
            rows.append(",".join(str(cells[c]) for c in columns))
    return drawn.write(folder, "tracks.csv", "\n".join(rows)), {}


def panoptic(truth, rng, folder):
    kinds = sorted(set(truth.labels))
    ids = rng.sample(range(1, 2**24), len(truth.labels))
    files, notes = {}, []
    for n in range(truth.count):
        number = np.zeros((truth.size[1], truth.size[0]), np.int64)
        segments = []
        for key, label, x, y, w, h in boxes_of(truth, n):
            number[int(y) : int(y + h), int(x) : int(x + w)] = ids[key - 1]
            segments.append({"id": ids[key - 1], "category_id": kinds.index(label) + 1,
                             "iscrowd": 0, "area": w * h, "bbox": [x, y, w, h]})  # fmt: skip
        rgb = np.stack([number % 256, number // 256 % 256, number // 65536], -1).astype(np.uint8)
        name = f"{n:06d}.png"
        files[f"panoptic/{name}"] = drawn.png(rgb)
        notes.append({"image_id": n, "file_name": name, "segments_info": segments})
    images = [{"id": n, "file_name": f"{n:06d}.jpg", "width": truth.size[0],
               "height": truth.size[1]} for n in range(truth.count)]  # fmt: skip
    categories = [{"id": i + 1, "name": z, "isthing": 1} for i, z in enumerate(kinds)]
    data = {"images": images, "annotations": notes, "categories": categories}
    return drawn.zipped(folder, files | {"panoptic.json": drawn.as_json(data)}), {}


def results_with_their_pictures(truth, rng, folder):
    whole = drawn.coco(truth, [f"frame_{n:04d}.jpg" for n in range(truth.count)])
    keys = ("image_id", "category_id", "bbox", "track_id")
    rows = [{k: row[k] for k in keys} | {"score": 0.9} for row in whole["annotations"]]
    rng.shuffle(rows)
    files = {"predictions.json": drawn.as_json(rows), "instances.json": drawn.as_json(whole)}
    return drawn.zipped(folder, files), {}


def kitti(truth, rng, folder):
    lines = [
        f"{n} {key - 1} {('Car', 'Van', 'Tram')[drawn.LABELS.index(label)]} 0 0 -1.57 {x:.6f}"
        f" {y:.6f} {x + w:.6f} {y + h:.6f} 1.5 1.6 3.9 -4.5 1.8 13.4 -2.1"
        for n in range(truth.count)
        for key, label, x, y, w, h in boxes_of(truth, n)
    ]
    lines.append("0 -1 DontCare -1 -1 -10 0.0 0.0 9.0 9.0 -1 -1 -1 -1000 -1000 -1000 -10")
    return drawn.write(folder, "0000.txt", "\n".join(lines)), {}


def visdrone(truth, rng, folder):
    lines = [
        f"{n + 1},{key},{x + 1:.0f},{y + 1:.0f},{w:.0f},{h:.0f},1,4,0,{rng.randint(0, 2)}"
        for n in range(truth.count)
        for key, _, x, y, w, h in boxes_of(truth, n)
    ]
    lines.append("1,0,1,1,20,20,0,0,0,0")
    return drawn.write(folder, "uav0000013_00000_v.txt", "\n".join(lines)), {}


def mot(truth, rng, folder):
    """A tracker's results between any columns, from 0 or 1, in any notation of numbers."""
    first = rng.choice([0, 1])
    rows = np.array([
        [n + first, key, x + 1, y + 1, w, h, rng.choice([-1, 1]), -1, -1, -1]
        for n in range(truth.count)
        for key, _, x, y, w, h in boxes_of(truth, n)
    ])  # fmt: skip
    out = io.StringIO()
    between = rng.choice([",", ", ", " ", "\t", ";"])
    form = rng.choice(["%g", "%.2f", "%.18e"])
    names = between.join("frame id left top width height conf x y z".split())
    np.savetxt(out, rows, form, between, header=rng.choice(["", names]), comments="")
    return drawn.write(folder, rng.choice(["clip.txt", "clip.csv"]), out.getvalue()), {}


WRITERS = {
    "labelme": labelme, "VIA": via, "BDD100K": bdd, "Datumaro": datumaro,
    "Supervisely": supervisely, "OpenLABEL": openlabel, "Pascal VOC": voc,
    "COCO panoptic": panoptic, "COCO results": results_with_their_pictures,
    "KITTI tracking": kitti, "VisDrone": visdrone, "MOT": mot, "LabelMe": labelme_xml,
    "table": table,
}  # fmt: skip
NAMELESS = ("KITTI tracking", "VisDrone", "MOT")
"""Those whose names of classes are not the drawn ones."""
WITHOUT_NUMBERS = ("Pascal VOC", "LabelMe")
"""Those that do not say which boxes are of one object."""
