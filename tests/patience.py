"""How long a test waits for another process: far longer than it takes on an idle machine.

Such a limit only ends what hangs. Nothing is judged by its speed here; that is for `bench/`.
MACD_PATIENCE_S=60 is for whoever looks for a failure and does not want to wait for it.
"""

import os

PATIENCE_S = int(os.environ.get("MACD_PATIENCE_S", "900"))
PATIENCE_MS = 1000 * PATIENCE_S
