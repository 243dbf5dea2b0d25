"""A video file → a Clip, read by a process of its own with bounded time and memory."""
