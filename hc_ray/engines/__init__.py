"""WALL. The adapters for models: servers with the OpenAI protocol or Anthropic's API, the embedded engine, scripted
answers; and the catalogue of models with their weights. May import ``machine`` and ``domain``."""
