"""Where a token's evidence lies in the video: maps by kind, knock-outs, and a lens over layers."""
