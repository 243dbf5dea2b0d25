"""`python -m ratings`."""

from ratings.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
