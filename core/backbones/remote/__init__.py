"""A backbone that a vLLM server holds: `vllm:http://HOST:PORT[/MODEL]`, see docs/remote.md.

client → wire, files → ways → probe → reader.
"""
