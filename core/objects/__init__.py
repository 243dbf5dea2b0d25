"""A Clip → detections → tracks."""
