"""Questions through a model: prompts, answers, rows in files, runs that go on where they ended."""
