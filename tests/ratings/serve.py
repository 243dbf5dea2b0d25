"""A server of one study and nothing else, for tests that kill it: `python -m tests.ratings.serve`.

Reads lines: "start" forks a server and prints its process id, anything else ends it all. What is
slow to import is imported once.
"""

import os
import signal
import sys

import uvicorn
from starlette.applications import Starlette

from macd_studio.ratings.store import Study
from macd_studio.ratings.web import StudySite


def serve(path, port):
    study = Study(path)
    site = StudySite(study)
    config = uvicorn.Config(Starlette(routes=site.routes()), port=port, log_level="critical")
    uvicorn.Server(config).run()


def main():
    path, port = sys.argv[1], int(sys.argv[2])
    if len(sys.argv) > 3:  # the largest file that the process may write, bytes
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
    child = 0
    for line in sys.stdin:
        if child:
            os.waitpid(child, 0)
            child = 0
        if line.strip() != "start":
            break
        child = os.fork()
        if not child:
            serve(path, port)
            os._exit(0)
        print(child, flush=True)
    if child:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
