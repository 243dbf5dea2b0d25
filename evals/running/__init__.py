"""Questions through a model: prompts, answers, rows in files, runs that continue after a kill."""
