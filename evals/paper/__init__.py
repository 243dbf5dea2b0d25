"""The paper's tables as data (one TOML file each), and ours computed for comparison."""
