"""`python -m ratings`."""

from macd_studio.ratings.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
