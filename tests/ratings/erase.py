"""Erases a rater in a process that kills itself: `python -m tests.ratings.erase STUDY RATER AT`.

AT: before which statement of SQL, by its number from 0 or by what the first such one begins with.
Where there is none it ends by itself, and prints how many there were.
"""

import os
import signal
import sys

from macd_studio.ratings.store import Study


def main():
    path, name, at = sys.argv[1:]
    with Study(path) as study:
        seen = []

        def before(statement):
            if str(len(seen)) == at or statement.startswith(at):
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(statement)

        # as SQLite is built in most places: what is deleted stays in the file's free space
        study._db.execute("PRAGMA secure_delete = OFF")
        study._db.set_trace_callback(before)
        study.erase(name)
        print(len(seen))


if __name__ == "__main__":
    main()
