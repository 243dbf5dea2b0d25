"""The paper's tables as data (tables.toml), and ours computed for comparison."""
