"""Second views: what the model is shown beside the video, built from what methods share."""
