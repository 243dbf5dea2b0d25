"""What this process and its machine give: memory, workers beside it, caches, downloads, files."""
