"""`python -m core`: the command line; see `core.cli.main`."""

from macd_studio.core.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
