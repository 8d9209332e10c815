"""Schemas on disk: the registry in a log or a folder, which topics use what, files of them."""
