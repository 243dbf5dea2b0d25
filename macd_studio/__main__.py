"""`python -m macd_studio`: the command `macd`, where its script is not on the path."""

from macd_studio.core.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
